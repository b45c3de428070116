// Finds the files of a source; expands, copies or encodes them; checks the tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "data/bare_tokens.hpp"
#include "data/expand.hpp"
#include "data/formats/indexed_pair.hpp"
#include "data/scratch_file.hpp"
#include "data/token_stream.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

/// Returns the position of the first token that is not below `vocab_size`. Computes the maximum of a block first: that
/// runs at memory speed, and nearly every block passes.
template <class Token>
std::optional<uint64_t> first_outside(std::span<const std::byte> bytes, uint64_t vocab_size) {
  constexpr size_t block = 4096;
  const size_t tokens = bytes.size() / sizeof(Token);
  Token buffer[block];
  for (size_t at = 0; at < tokens; at += block) {
    const size_t n = std::min(block, tokens - at);
    std::memcpy(buffer, bytes.data() + at * sizeof(Token), n * sizeof(Token));
    Token largest = 0;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, buffer[i]);
    if (largest < vocab_size) continue;
    return at +
           static_cast<size_t>(std::find_if(buffer, buffer + n, [&](Token t) { return t >= vocab_size; }) - buffer);
  }
  return std::nullopt;
}

/// Bytes that are read at once while tokens are checked; a multiple of every token width.
constexpr uint64_t check_block_bytes = uint64_t{1} << 20;

uint64_t value_at(std::span<const std::byte> bytes, uint64_t index, uint8_t width) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + index * width, width);
  return value;
}

}  // namespace

/// Builds a token_stream: adds the files of a source one after the other, then returns the stream, which is immutable
/// from then on.
class stream_builder {
 public:
  explicit stream_builder(const source_options& options) : options_(options), budget_(options.max_bytes) {
    stream_->vocab_size_ = options_.vocab_size;
    if (options_.scratch.empty()) {
      std::error_code ec;
      options_.scratch = fs::temp_directory_path(ec);
      if (ec) options_.scratch = ".";
    }
    is_given_ = options_.tokens_of != nullptr;
    if (!is_given_) options_.tokens_of = make_byte_tokenizer();
    bytes_are_tokens_ = options_.tokens_of->description().kind == "bytes";
    stream_->tokens_are_bytes_ = bytes_are_tokens_;
  }

  void leave_out(const std::vector<left_out_file>& files) { name_left_out(stream_->summary_, options_.path, files); }

  core::result<void> add(const fs::path& path, bool may_copy) {
    const auto kind = kind_of(path);
    if (!first_file_) first_file_ = path;
    if ((kind == source_kind::tokens) != (kind_of(*first_file_) == source_kind::tokens))
      return fail(error_kind::bad_input, fmt::format("the data folder mixes tokens and text: '{}' and '{}'",
                                                     first_file_->string(), path.string()));
    const auto watch = [&](uint64_t done, uint64_t bytes) { return tell(path, done, bytes); };
    const uint64_t begin = expanded_.bytes();
    TROUPE_ASSIGN(auto file, open_expanded(path, budget_, expanded_, options_.scratch, watch));
    if (is_packed(path) || kind == source_kind::text || kind == source_kind::json_lines) budget_ -= file.size();
    count_file(stream_->summary_, options_.path, path, file.size());
    if (kind == source_kind::tokens) {
      if (const auto index = index_of(path)) return add_indexed(path, *index, std::move(file));
      return add_tokens(path, std::move(file), begin, may_copy);
    }
    if (!stream_->maker_) stream_->maker_ = {options_.tokens_of->description(), path.string()};
    if (kind == source_kind::text && bytes_are_tokens_)
      return add_bytes(path, std::move(file), begin, may_copy, {0, 1});
    return encode(path, file);
  }

  core::result<std::shared_ptr<const token_stream>> finish() {
    TROUPE_TRY(end_encoding());
    for (const auto& [scratch, slot] : {std::pair(&expanded_, expanded_slot_), std::pair(&encoded_, encoded_slot_)}) {
      if (!slot) continue;
      TROUPE_ASSIGN(auto file, scratch->content(options_.path.string()));
      stream_->files_[*slot] = std::move(file);
      if (stream_->files_.size() == 1 && stream_->copied_.empty())
        stream_->nameless_ = std::make_shared<const scratch_file>(std::move(*scratch));
    }
    if (stream_->size_ == 0)
      return fail(error_kind::bad_input,
                  fmt::format("'{}' holds no text: nothing to train on", options_.path.string()));
    auto& told = stream_->summary_;
    told.documents = stream_->documents_;
    told.tokens = stream_->size_;
    told.ends_documents = stream_->end_of_text_.has_value() || has_index_;
    return stream_;
  }

 private:
  struct token_place {  ///< offset of the first token of a file, and the width of its tokens, both in bytes
    uint64_t begin_byte = 0;
    uint8_t width = 1;
  };

  core::result<void> add_tokens(const fs::path& path, core::source_file file, uint64_t begin, bool may_copy) {
    TROUPE_ASSIGN(const auto described, read_token_file(path, file.size()));
    token_place place;
    uint64_t documents = 1;
    std::optional<uint32_t> end;
    bool bytes = false;
    if (described) {
      const auto& d = *described;
      place.width = static_cast<uint8_t>(d.width);
      documents = d.documents;
      end = d.tokenizer.end_of_text;
      bytes = d.tokenizer.kind == "bytes";
      if (is_given_) TROUPE_TRY(check_requested(path, d));
      if (stream_->maker_) TROUPE_TRY(check_same_tokenizer(*stream_->maker_, {d.tokenizer, path.string()}));
      stream_->maker_ = {d.tokenizer, path.string()};
      if (options_.keep_documents && documents > 1 && !end)
        return fail(error_kind::bad_input, fmt::format("'{}' holds {} documents without an end-of-text token between "
                                                       "them: data.document_mask cannot find their borders",
                                                       path.string(), documents));
    } else {
      TROUPE_ASSIGN(const auto bare, look_at_tokens(file, options_.bin));
      place = {bare.begin_byte, static_cast<uint8_t>(bare.width)};
      if (options_.keep_documents)
        return fail(error_kind::bad_input,
                    fmt::format("'{}': where its documents begin is unknown, which data.document_mask requires: use "
                                "tokens that `troupe data tokenize` wrote, or a Megatron index next to the file",
                                path.string()));
      stream_->summary_.knows_documents = false;
    }
    if (stream_->segments_.empty()) {
      stream_->end_of_text_ = end;
    } else if (place.width != stream_->width_ || end != stream_->end_of_text_) {
      return fail(error_kind::bad_input, fmt::format("the data folder mixes tokens of two kinds: '{}' and '{}'",
                                                     first_file_->string(), path.string()));
    }
    stream_->tokens_are_bytes_ = bytes;
    const uint64_t before = stream_->documents_;
    TROUPE_TRY(add_bytes(path, std::move(file), begin, may_copy, place));
    stream_->documents_ = before + documents;  // add_bytes counts one document, or none in an empty file
    return {};
  }

  /// Refuses a file whose description names another tokenizer than the one that the configuration requests.
  [[nodiscard]] core::result<void> check_requested(const fs::path& path, const token_file& d) const {
    const auto& mine = options_.tokens_of->description();
    if (!same_vocabulary(d.tokenizer, mine))
      return core::refused(
          fmt::format("'{}' holds tokens of {} '{}' ({} tokens), but the requested tokenizer is {}{} ({} tokens)",
                      path.string(), d.tokenizer.kind, d.tokenizer_path, d.tokenizer.vocab_size,
                      bytes_are_tokens_ ? "" : "another ", mine.kind, mine.vocab_size));
    if (d.tokenizer.end_of_text == mine.end_of_text) return {};
    return core::refused(
        fmt::format("'{}' ends its documents with {}, but the requested tokenizer with {}: encode the text again, or "
                    "restore the tokenizer's files",
                    path.string(), shown_end(d.tokenizer), shown_end(mine)));
  }

  /// Adds Megatron's pair of files, NAME.bin and its index. The tokens stay in NAME.bin if the stream can read them
  /// there; they are copied to a scratch file if they are stored as small signed, 64-bit or floating-point numbers, if
  /// sequences do not follow one another, or if other files of the folder have another token width.
  core::result<void> add_indexed(const fs::path& path, const fs::path& index, core::source_file file) {
    std::error_code ec;
    if (is_packed(path) || fs::exists(description_path(path), ec))
      return fail(error_kind::bad_input,
                  fmt::format("'{}' has an index '{}', with which it cannot be {}", path.string(), index.string(),
                              is_packed(path) ? "packed: unpack it"
                                              : "read together with a description: remove its .bin.json or the index"));
    TROUPE_ASSIGN(const auto pair, indexed_pair::open(index, file, options_.keep_documents));
    if (pair.tokens() == 0) return {};
    TROUPE_TRY(end_encoding());
    const bool first = stream_->segments_.empty();
    if (!first && stream_->end_of_text_)
      return fail(error_kind::bad_input, fmt::format("the data folder mixes tokens of two kinds: '{}' and '{}'",
                                                     first_file_->string(), path.string()));
    const auto begin = pair.begin_of_all();
    const auto lies_as = pair.type();
    const uint8_t width = lies_as == indexed_type::u8    ? 1
                          : lies_as == indexed_type::u16 ? 2
                          : lies_as == indexed_type::i32 ? 4
                                                         : 0;
    const bool stays = begin && width != 0 && (first || width == stream_->width_);
    if (first) stream_->width_ = stays ? width : token_width(options_.vocab_size);
    for (const uint64_t start : pair.starts()) stream_->starts_.push_back(stream_->size_ + start);
    stream_->documents_ += pair.documents();
    has_index_ = true;
    stream_->tokens_are_bytes_ = false;
    if (stays) {
      const uint64_t vocab =
          lies_as == indexed_type::i32 ? std::min(options_.vocab_size, uint64_t{1} << 31) : options_.vocab_size;
      TROUPE_TRY(check(path, file, *begin, pair.tokens() * width, vocab));
      append({.tokens = pair.tokens(), .file = keep(std::move(file)), .begin = *begin});
      return {};
    }
    TROUPE_TRY(open_encoded());
    const uint64_t from = encoded_.bytes();
    const uint64_t all = pair.tokens() * stream_->width_;
    auto ok = pair.give(stream_->width_, options_.vocab_size, [&](std::span<const std::byte> x) -> core::result<void> {
      if (!tell(path, encoded_.bytes() - from, all)) return fail(error_kind::stopped, "stopped while reading the data");
      return encoded_.append(x);
    });
    if (!ok) return ok;
    append({.tokens = pair.tokens(), .file = slot_of(encoded_slot_), .begin = from});
    return {};
  }

  core::result<void> add_bytes(const fs::path& path, core::source_file file, uint64_t begin, bool may_copy,
                               token_place place) {
    const uint8_t width = stream_->width_ = place.width;
    const uint64_t first = place.begin_byte, bytes = file.size() - first;
    if (bytes % width != 0)
      return fail(error_kind::bad_input, fmt::format("'{}' has {} bytes, which is not a multiple of the {} of a token",
                                                     path.string(), bytes, width));
    if (bytes == 0) return {};
    TROUPE_TRY(end_encoding());
    const bool copies = may_copy && bytes < copied_below_bytes;
    const auto copy = copies ? reserve(bytes) : std::span<std::byte>();
    TROUPE_TRY(file.read(first, copy));
    TROUPE_TRY(check(path, file, first, bytes, options_.vocab_size));
    stream_->starts_.push_back(stream_->size_);
    ++stream_->documents_;
    if (copies)
      append({.tokens = bytes / width, .memory = copy.data()});
    else if (is_packed(path))
      append({.tokens = bytes / width, .file = slot_of(expanded_slot_), .begin = begin + first});
    else
      append({.tokens = bytes / width, .file = keep(std::move(file)), .begin = first});
    return {};
  }

  void append(token_stream::segment s) {
    s.first = stream_->size_;
    stream_->size_ += s.tokens;
    stream_->segments_.push_back(s);
  }
  size_t keep(core::source_file file) {
    if (stream_->files_.size() >= open_files_max) file.close_between_reads();
    stream_->files_.push_back(std::move(file));
    return stream_->files_.size() - 1;
  }
  /// Returns `slot`, the index of a scratch file in the stream's files. The first call reserves the index with an empty
  /// file, which finish() replaces by the complete scratch file.
  size_t slot_of(std::optional<size_t>& slot) {
    if (!slot) slot = keep({});
    return *slot;
  }

  [[nodiscard]] bool tell(const fs::path& path, uint64_t done, uint64_t bytes) const {
    return !options_.watch || options_.watch({path.string(), done, bytes, stream_->size_});
  }

  core::result<void> encode(const fs::path& path, const core::source_file& file) {
    if (!encoder_) {
      TROUPE_TRY(begin_encoding());
    }
    return encoder_->add(path, file, options_.text_key, budget_);
  }

  core::result<void> begin_encoding() {
    const auto& d = options_.tokens_of->description();
    TROUPE_TRY(check_vocabulary(d, options_.vocab_size));
    TROUPE_TRY(open_encoded());
    encoded_begin_ = encoded_.bytes();
    stream_->width_ = token_width(d.vocab_size);
    stream_->end_of_text_ = d.end_of_text;
    encoder_ = std::make_unique<document_encoder>(
        *options_.tokens_of, stream_->width_, options_.vocab_size,
        [this](std::span<const std::byte> bytes) { return encoded_.append(bytes); }, options_.watch);
    if (options_.keep_documents && !d.end_of_text) encoder_->keep_starts();
    return {};
  }

  core::result<void> open_encoded() {
    if (encoded_.is_open()) return {};
    TROUPE_ASSIGN(auto sink, scratch_file::create(options_.scratch));
    encoded_ = std::move(sink);
    return {};
  }

  /// Ends the encoding; the tokens encoded so far become one segment.
  core::result<void> end_encoding() {
    if (!encoder_) return {};
    TROUPE_TRY(encoder_->flush());
    for (const uint64_t start : encoder_->starts()) stream_->starts_.push_back(stream_->size_ + start);
    stream_->documents_ += encoder_->documents();
    if (const uint64_t bytes = encoded_.bytes() - encoded_begin_; bytes > 0)
      append({.tokens = bytes / stream_->width_, .file = slot_of(encoded_slot_), .begin = encoded_begin_});
    encoder_.reset();
    return {};
  }

  /// Checks that all tokens in bytes [begin, begin + bytes) of `file` are below `vocab`.
  core::result<void> check(const fs::path& path, const core::source_file& file, uint64_t begin, uint64_t bytes,
                           uint64_t vocab) const {
    const uint8_t width = stream_->width_;
    if (vocab >= uint64_t{1} << (8 * width)) return {};  // no token of this width can be outside the vocabulary
    std::vector<std::byte> block(std::min(bytes, check_block_bytes));
    for (uint64_t at = 0; at < bytes; at += block.size()) {
      const auto part = std::span(block).first(std::min<uint64_t>(block.size(), bytes - at));
      TROUPE_TRY(file.read(begin + at, part));
      const auto bad = width == 1   ? first_outside<uint8_t>(part, vocab)
                       : width == 2 ? first_outside<uint16_t>(part, vocab)
                                    : first_outside<uint32_t>(part, vocab);
      if (bad)
        return fail(error_kind::bad_input,
                    fmt::format("token {} at position {} of '{}' lies outside the vocabulary of {}",
                                value_at(part, *bad, width), at / width + *bad, path.string(), vocab));
      if (!tell(path, at + part.size(), bytes)) return fail(error_kind::stopped, "stopped while reading the data");
    }
    return {};
  }

  /// Returns room in the current block, or in a new one; a block never grows beyond its reserved size, so addresses
  /// stay valid.
  std::span<std::byte> reserve(size_t bytes) {
    auto& blocks = stream_->copied_;
    if (blocks.empty() || blocks.back().capacity() - blocks.back().size() < bytes)
      blocks.emplace_back().reserve(std::max<size_t>(copied_below_bytes, bytes));
    auto& block = blocks.back();
    const size_t start = block.size();
    block.resize(start + bytes);
    return std::span(block).subspan(start);
  }

  source_options options_;
  uint64_t budget_;  ///< bytes of texts, rows and expanded files that may still be read
  bool bytes_are_tokens_ = true;
  /// True: the configuration names a tokenizer, options_.tokens_of. A token file whose description (its .json file)
  /// names another tokenizer is refused then.
  bool is_given_ = false;
  bool has_index_ = false;  ///< true: a Megatron index was read; its tokens may contain their own ends of documents
  std::optional<fs::path> first_file_;
  scratch_file expanded_, encoded_;
  std::optional<size_t> expanded_slot_, encoded_slot_;  ///< indices of expanded_ and encoded_ in the stream's files
  uint64_t encoded_begin_ = 0;  ///< offset in the scratch file encoded_ of the first token that encoder_ has written
  std::unique_ptr<document_encoder> encoder_;  ///< encoder of consecutive text files; null while no text is encoded
  std::shared_ptr<token_stream> stream_ = std::make_shared<token_stream>();
};

core::result<std::shared_ptr<const token_stream>> open_tokens(const source_options& options) {
  TROUPE_ASSIGN(const auto listed, source_files(options.path));
  std::error_code ec;
  const bool folder = fs::is_directory(options.path, ec);
  stream_builder builder(options);
  builder.leave_out(listed.left_out);
  for (const auto& file : listed.files) TROUPE_TRY(builder.add(file, folder));
  return builder.finish();
}

}  // namespace troupe::data
