// Finding the files, mapping or copying them, checking the tokens, reading them back.
#include "data/token_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

#include "data/expand.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

static_assert(std::endian::native == std::endian::little, ".bin files are read as they lie");

bool is_packed(const fs::path& p) { return p.extension() == ".gz" || p.extension() == ".dz"; }
bool holds_tokens(const fs::path& p) { return (is_packed(p) ? p.stem() : p).extension() == ".bin"; }

/// True where `p`, all links followed, lies in `folder` (itself canonical).
bool lies_inside(const fs::path& p, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), p.begin(), p.end());
  return end == folder.end();
}

/// All regular files below `folder`, sorted by path.
core::result<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::error_code ec;
  const fs::path root = fs::canonical(folder, ec);
  if (ec) return fail(error_kind::bad_input, fmt::format("cannot read '{}': {}", folder.string(), ec.message()));
  std::vector<fs::path> found;
  fs::recursive_directory_iterator it(root, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    if (it->is_symlink(ec)) {
      const fs::path target = fs::canonical(it->path(), ec);
      if (ec || !lies_inside(target, root))
        return fail(error_kind::bad_input,
                    fmt::format("the link '{}' leads out of the data folder '{}': only what lies inside is read",
                                it->path().string(), folder.string()));
      continue;
    }
    if (!it->is_regular_file(ec)) continue;
    if (found.size() == max_source_files)
      return fail(error_kind::limit,
                  fmt::format("the data folder '{}' holds more than {} files", folder.string(), max_source_files));
    found.push_back(it->path());
  }
  if (ec) return fail(error_kind::bad_input, fmt::format("cannot read all of '{}': {}", folder.string(), ec.message()));
  std::sort(found.begin(), found.end());
  return found;
}

/// Position of the first token that is not below `vocab_size`. The maximum of a block first: it runs at
/// memory speed, and nearly every block passes.
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

template <class Token>
void widen(const std::byte* from, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Token t;
    std::memcpy(&t, from + i * sizeof(Token), sizeof(Token));
    out[i] = static_cast<int64_t>(t);
  }
}

uint64_t value_at(std::span<const std::byte> bytes, uint64_t index, uint8_t width) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + index * width, width);
  return value;
}

}  // namespace

/// Takes one file after the other into a stream that nobody else has seen yet.
class stream_builder {
 public:
  explicit stream_builder(const source_options& options) : options_(options), budget_(options.max_bytes) {
    stream_->vocab_size_ = options.vocab_size;
    if (options_.scratch.empty()) {
      std::error_code ec;
      options_.scratch = fs::temp_directory_path(ec);
      if (ec) options_.scratch = ".";
    }
  }

  core::result<void> add(const fs::path& path, bool may_copy) {
    if (stream_->segments_.empty()) stream_->width_ = width_of(path);
    auto file = is_packed(path) ? expand_gzip(path, budget_, options_.scratch) : core::mapped_file::open(path);
    if (!file) return fail(file.error());
    auto bytes = file->bytes();
    if (is_packed(path)) budget_ -= bytes.size();
    const uint8_t width = stream_->width_;
    if (bytes.size() % width != 0)
      return fail(error_kind::bad_input, fmt::format("'{}' has {} bytes, no multiple of the {} that one token takes",
                                                     path.string(), bytes.size(), width));
    if (bytes.empty()) return {};
    if (auto ok = check(path, bytes); !ok) return ok;
    if (may_copy && bytes.size() < copied_below_bytes) {
      bytes = keep(bytes);
    } else {
      stream_->files_.push_back(std::move(*file));
    }
    stream_->segments_.push_back({stream_->size_, bytes});
    stream_->size_ += bytes.size() / width;
    return {};
  }

  static uint8_t width_of(const fs::path& path, bin_width bin) {
    return holds_tokens(path) ? static_cast<uint8_t>(bin) : uint8_t{1};
  }
  [[nodiscard]] uint8_t width_of(const fs::path& path) const { return width_of(path, options_.bin); }

  core::result<std::shared_ptr<const token_stream>> finish() {
    if (stream_->size_ == 0)
      return fail(error_kind::bad_input,
                  fmt::format("'{}' holds no text: nothing to train on", options_.path.string()));
    return stream_;
  }

 private:
  core::result<void> check(const fs::path& path, std::span<const std::byte> bytes) const {
    const uint64_t vocab = options_.vocab_size;
    const uint8_t width = stream_->width_;
    if (vocab >= uint64_t{1} << (8 * width)) return {};  // no such token exists
    const auto bad = width == 1   ? first_outside<uint8_t>(bytes, vocab)
                     : width == 2 ? first_outside<uint16_t>(bytes, vocab)
                                  : first_outside<uint32_t>(bytes, vocab);
    if (!bad) return {};
    return fail(error_kind::bad_input, fmt::format("token {} at position {} of '{}' lies outside the vocabulary of {}",
                                                   value_at(bytes, *bad, width), *bad, path.string(), vocab));
  }

  /// Copies into the current block, or opens a new one; a block never grows beyond what it reserved.
  std::span<const std::byte> keep(std::span<const std::byte> bytes) {
    auto& blocks = stream_->copied_;
    if (blocks.empty() || blocks.back().capacity() - blocks.back().size() < bytes.size())
      blocks.emplace_back().reserve(std::max<size_t>(copied_below_bytes, bytes.size()));
    auto& block = blocks.back();
    const size_t start = block.size();
    block.insert(block.end(), bytes.begin(), bytes.end());
    return std::span<const std::byte>(block).subspan(start);
  }

  source_options options_;
  uint64_t budget_;  ///< what expansions may still take
  std::shared_ptr<token_stream> stream_ = std::make_shared<token_stream>();
};

std::optional<bin_width> bin_width_from(std::string_view name) {
  if (name == "uint16") return bin_width::u16;
  if (name == "uint32") return bin_width::u32;
  return std::nullopt;
}

void token_stream::copy(uint64_t first, std::span<int64_t> out) const {
  assert(first <= size_ && out.size() <= size_ - first);
  auto it = std::upper_bound(segments_.begin(), segments_.end(), first,
                             [](uint64_t at, const segment& s) { return at < s.first; });
  --it;
  while (!out.empty()) {
    const uint64_t skip = first - it->first;
    const uint64_t n = std::min<uint64_t>(out.size(), it->bytes.size() / width_ - skip);
    const std::byte* from = it->bytes.data() + skip * width_;
    if (width_ == 1) {
      widen<uint8_t>(from, out.first(n));
    } else if (width_ == 2) {
      widen<uint16_t>(from, out.first(n));
    } else {
      widen<uint32_t>(from, out.first(n));
    }
    first += n;
    out = out.subspan(n);
    ++it;
  }
}

core::result<std::shared_ptr<const token_stream>> open_tokens(const source_options& options) {
  stream_builder builder(options);
  std::error_code ec;
  if (!fs::is_directory(options.path, ec)) {
    if (auto ok = builder.add(options.path, false); !ok) return fail(ok.error());
    return builder.finish();
  }
  auto files = files_below(options.path);
  if (!files) return fail(files.error());
  for (const auto& file : *files) {
    if (builder.width_of(file) != builder.width_of(files->front()))
      return fail(error_kind::bad_input, fmt::format("the data folder mixes tokens and text: '{}' and '{}'",
                                                     files->front().string(), file.string()));
    if (auto ok = builder.add(file, true); !ok) return fail(ok.error());
  }
  return builder.finish();
}

}  // namespace troupe::data
