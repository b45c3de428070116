// Cuts long texts into pieces, encodes the pieces as tokens, and passes the tokens to a sink.
#include "data/documents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/formats/json_lines.hpp"
#include "data/formats/rows.hpp"

namespace troupe::data {
namespace {

/// True for Unicode's White_Space, as in the pattern of words (data/tokenizers/text/word_cutter.cpp).
bool is_space(uint32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// True if a white-space character begins at byte `at` of `text`; broken bytes and characters of more than three bytes
/// are none.
bool space_at(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(rest[i])); };
  switch (core::utf8_character(rest)) {
    case 1:
      return is_space(byte(0));
    case 2:
      return is_space((byte(0) & 0x1F) << 6 | (byte(1) & 0x3F));
    case 3:
      return is_space((byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F));
    default:
      return false;
  }
}

/// Returns the byte at which the character begins that ends before byte `at` (above 0).
size_t character_before(std::string_view text, size_t at) {
  size_t start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

/// True if the character that ends before byte `at` (above 0) is white space.
bool space_before(std::string_view text, size_t at) { return space_at(text, character_before(text, at)); }

/// Largest number of bytes of a text that are examined for one piece: the longest piece, and 4096 bytes for the
/// character after it and for an added word that extends beyond its end.
constexpr uint64_t seen_for_piece_bytes = longest_piece_bytes + 4096;

/// Refuses a text that is not UTF-8. The text begins at byte `begin` of its document. `is_cut`: it may end within a
/// character.
core::result<void> check_characters(std::string_view text, uint64_t begin, bool is_cut) {
  const size_t good = core::utf8_prefix(text);
  if (good == text.size() || (is_cut && good == core::utf8_whole(text))) return {};
  return core::refused(fmt::format(
      "byte {} of its text ({:#04x}) is not UTF-8: convert the text, for example by `iconv -f LATIN1 -t UTF-8`, or use "
      "its bytes as tokens (data.tokenizer: bytes)",
      begin + good, static_cast<unsigned>(static_cast<unsigned char>(text[good]))));
}

/// Encodes a piece of a text that may be cut before `signs` alone, as encode_piece() does.
core::result<uint64_t> encode_before_sign(tokenizer& by, std::string_view signs, std::string_view text, uint64_t at,
                                          bool has_tokens, std::vector<uint32_t>& out) {
  const auto n = first_piece_before(
      text, signs, [&](std::string_view character) { return by.may_end_part(character); },
      [&](size_t place) { return by.may_cut(text, place); });
  const auto piece = text.substr(0, n.value_or(longest_piece_bytes));
  TROUPE_TRY(check_characters(piece, at, !n));
  if (!n) return uint64_t{0};
  TROUPE_TRY(has_tokens ? by.encode_next(piece, out) : by.encode(piece, out));
  return uint64_t{*n};
}

template <class Token>
void narrow(std::span<const uint32_t> tokens, std::vector<std::byte>& out) {
  const size_t start = out.size();
  out.resize(start + tokens.size() * sizeof(Token));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto t = static_cast<Token>(tokens[i]);
    std::memcpy(out.data() + start + i * sizeof(Token), &t, sizeof t);
  }
}

}  // namespace

std::optional<size_t> first_piece_before(std::string_view text, std::string_view signs,
                                         const std::function<bool(std::string_view)>& may_end,
                                         const may_cut_at& may_cut) {
  // SentencePiece's sign for a space, which a model may treat as a space.
  constexpr std::string_view shown_space = "\xE2\x96\x81";
  if (text.size() <= piece_bytes) return text.size();
  const std::string_view searched = text.substr(0, longest_piece_bytes);
  for (size_t at = searched.find_first_of(signs, piece_bytes); at != searched.npos;
       at = searched.find_first_of(signs, at + 1)) {
    if (space_before(text, at) || text.substr(0, at).ends_with(shown_space) || (may_cut && !may_cut(at))) continue;
    const size_t start = character_before(text, at);
    if (!may_end || may_end(text.substr(start, at - start))) return at;
  }
  return text.size() <= longest_piece_bytes ? std::optional(text.size()) : std::nullopt;
}

core::result<uint64_t> encode_piece(tokenizer& by, text_window& document, uint64_t at, bool has_tokens,
                                    uint64_t first_bytes, std::vector<uint32_t>& out) {
  if (const auto signs = by.cut_signs()) {
    TROUPE_ASSIGN(const auto text, document.at(at, seen_for_piece_bytes));
    return encode_before_sign(by, *signs, text, at, has_tokens, out);
  }
  const bool is_text = by.description().kind != "bytes";
  for (uint64_t seen = std::min(first_bytes, seen_for_piece_bytes);; seen = std::min(2 * seen, seen_for_piece_bytes)) {
    TROUPE_ASSIGN(const auto rest, document.at(at, seen));
    const auto text = rest.substr(0, seen);
    const text_part part{.text = text, .is_begin = at == 0, .is_end = at + text.size() == document.size()};
    if (is_text) TROUPE_TRY(check_characters(part.text, at, !part.is_end));
    TROUPE_ASSIGN(const size_t n, by.encode_part(part, out));
    if (n > 0 || seen == seen_for_piece_bytes) return uint64_t{n};
  }
}

uint8_t token_width(uint64_t vocab_size) { return vocab_size <= 1U << 8 ? 1 : vocab_size <= 1U << 16 ? 2 : 4; }

document_encoder::document_encoder(tokenizer& tokenizer, uint8_t width, uint64_t vocab_size, byte_sink sink,
                                   reading_watch watch)
    : tokenizer_(tokenizer), width_(width), vocab_size_(vocab_size), sink_(std::move(sink)), watch_(std::move(watch)) {}

core::result<void> document_encoder::add(const std::filesystem::path& file, text_window&& content,
                                         const std::string& text_key) {
  progress_.file = file.string();
  progress_.bytes = content.size();
  told_ = untold_ = 0;
  if (kind_of(file) != source_kind::json_lines) {
    if (content.size() == 0) return {};
    auto ok = encode(content, 0, true);
    return ok ? tell(content.size()) : core::fail(ok.error().in(progress_.file));
  }
  auto ok = read_json_lines(std::move(content), progress_.file, text_key, [&](std::string_view text, uint64_t end) {
    text_window line(text);
    auto done = encode(line, end - std::min<uint64_t>(text.size(), end), true);
    return done ? done : core::fail(done.error().in(progress_.file));
  });
  return ok ? tell(content.size()) : ok;
}

core::result<void> document_encoder::add(const std::filesystem::path& file, const core::source_file& content,
                                         const std::string& text_key, uint64_t& row_bytes) {
  if (!has_rows(kind_of(file))) return add(file, text_window(content), text_key);
  progress_.file = file.string();
  progress_.bytes = content.size();
  told_ = untold_ = 0;
  auto ok = read_rows(kind_of(file), content, text_key, row_bytes,
                      [&](std::optional<std::string_view> text, uint64_t byte) -> core::result<void> {
                        if (!text) return tell(byte);
                        text_window row(*text);
                        auto done = encode(row, byte, false);
                        return done ? done : core::fail(done.error().in(progress_.file));
                      });
  return ok ? tell(content.size()) : ok;
}

core::result<void> document_encoder::encode(text_window& document, uint64_t begin, bool lies_there) {
  const uint64_t first = tokens_;
  if (keep_starts_) starts_.push_back(first);
  for (uint64_t at = 0; at < document.size();) {
    TROUPE_ASSIGN(const uint64_t n, encode_next(document, at, first));
    at += n;
    TROUPE_TRY(give(ids_));
    untold_ += n;
    TROUPE_TRY(tell_at_times(lies_there ? begin + at : begin));
  }
  ++documents_;
  const auto end = tokenizer_.end_of_text();
  return end ? give(std::span(&*end, 1)) : core::result<void>{};
}

core::result<uint64_t> document_encoder::encode_next(text_window& document, uint64_t at, uint64_t begin) {
  const auto signs = tokenizer_.cut_signs();
  ids_.clear();
  const auto n = encode_piece(tokenizer_, document, at, tokens_ > begin, piece_bytes, ids_);
  if (!n) return fail(n.error().in(fmt::format("document {}", documents_ + 1)));
  if (*n == 0)
    return core::refused(
        fmt::format("document {}: {} bytes, from token {} of the document on, {}: divide it into shorter documents",
                    documents_ + 1, longest_piece_bytes, tokens_ - begin,
                    signs ? fmt::format("have no blank before which this SentencePiece model lets a long text be cut{}",
                                        signs->ends_with('\n') ? ", nor such a line break" : "")
                          : "are one word of the tokenizer"));
  if (const auto end = tokenizer_.end_of_text(); end && std::ranges::find(ids_, *end) != ids_.end())
    return core::refused(
        fmt::format("document {}: a text in it becomes the end-of-text token {} ('{}'), which would end the document: "
                    "remove it from the text, or name another eos_token in tokenizer_config.json",
                    documents_ + 1, *end, core::shown(tokenizer_.decode(std::span(&*end, 1)))));
  return *n;
}

core::result<void> document_encoder::give(std::span<const uint32_t> tokens) {
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](uint32_t t) { return t >= vocab_size_; });
  if (bad != tokens.end())
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("token {} of document {} lies outside the vocabulary of {}", *bad, documents_ + 1, vocab_size_));
  tokens_ += tokens.size();
  if (width_ == 1) narrow<uint8_t>(tokens, bytes_);
  if (width_ == 2) narrow<uint16_t>(tokens, bytes_);
  if (width_ == 4) narrow<uint32_t>(tokens, bytes_);
  if (bytes_.size() < give_bytes) return {};
  return flush();
}

core::result<void> document_encoder::flush() {
  auto ok = sink_(bytes_);
  bytes_.clear();
  return ok;
}

core::result<void> document_encoder::tell_at_times(uint64_t bytes_done) {
  return bytes_done >= told_ + give_bytes || untold_ >= give_bytes ? tell(bytes_done) : core::result<void>{};
}

core::result<void> document_encoder::tell(uint64_t bytes_done) {
  told_ = bytes_done;
  untold_ = 0;
  progress_.bytes_done = bytes_done;
  progress_.tokens = tokens_;
  if (watch_ && !watch_(progress_)) return core::fail(core::error_kind::stopped, "stopped while reading the data");
  return {};
}

}  // namespace troupe::data
