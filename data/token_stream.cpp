// Reads tokens of an open stream; open_tokens.cpp builds the stream.
#include "data/token_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "core/token_order.hpp"

namespace troupe::data {
namespace {

static_assert(std::endian::native == std::endian::little, ".bin files are read as they lie");

/// Number of bytes that one read of a file requests, into a buffer on the stack; a window of a few thousand tokens
/// needs one read.
constexpr size_t read_block_bytes = size_t{1} << 14;

template <class Token>
void widen(const std::byte* from, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Token t;
    std::memcpy(&t, from + i * sizeof(Token), sizeof(Token));
    out[i] = static_cast<int64_t>(t);
  }
}

}  // namespace

void token_stream::widened(const std::byte* bytes, std::span<int64_t> out) const {
  if (width_ == 1) {
    widen<uint8_t>(bytes, out);
  } else if (width_ == 2) {
    widen<uint16_t>(bytes, out);
  } else {
    widen<uint32_t>(bytes, out);
  }
}

core::result<void> token_stream::read(const segment& from, uint64_t skip, std::span<int64_t> out) const {
  if (from.memory != nullptr) {
    widened(from.memory + skip * width_, out);
    return {};
  }
  std::array<std::byte, read_block_bytes> block;
  while (!out.empty()) {
    const size_t n = std::min(out.size(), block.size() / width_);
    TROUPE_TRY(files_[from.file].read(from.begin + skip * width_, std::span(block).first(n * width_)));
    widened(block.data(), out.first(n));
    skip += n;
    out = out.subspan(n);
  }
  return {};
}

core::result<void> token_stream::copy(uint64_t first, std::span<int64_t> out) const {
  if (first > size_ || out.size() > size_ - first)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("wanted tokens of a source's {}, got {} from token {} on", size_, out.size(), first));
  if (out.empty()) return {};
  auto it = std::upper_bound(segments_.begin(), segments_.end(), first,
                             [](uint64_t at, const segment& s) { return at < s.first; });
  --it;
  while (!out.empty()) {
    const uint64_t skip = first - it->first;
    const uint64_t n = std::min<uint64_t>(out.size(), it->tokens - skip);
    TROUPE_TRY(read(*it, skip, out.first(n)));
    first += n;
    out = out.subspan(n);
    ++it;
  }
  return {};
}

uint64_t token_stream::find_targets(uint64_t first, std::span<const int64_t> row, std::span<int64_t> targets) const {
  assert(row.size() == targets.size() + 1);
  if (!selects_targets_) {
    std::copy(row.begin() + 1, row.end(), targets.begin());
    return targets.size();
  }
  std::fill(targets.begin(), targets.end(), core::no_target);
  uint64_t out = 0;
  const uint64_t begin = first + 1, end = first + row.size();
  // The number of borders at or before a token is odd if the token counts.
  auto next = std::upper_bound(counted_.begin(), counted_.end(), begin);
  bool counts = (next - counted_.begin()) % 2 == 1;
  for (uint64_t at = begin; at < end;) {
    const uint64_t until = next == counted_.end() ? end : std::min(end, *next);
    if (counts) {
      for (uint64_t i = at; i < until; ++i) targets[i - begin] = row[i - first];
      out += until - at;
    }
    at = until;
    for (; next != counted_.end() && *next == at; ++next) counts = !counts;
  }
  return out;
}

uint64_t token_stream::counted(uint64_t first, uint64_t count) const {
  if (!selects_targets_) return count;
  uint64_t out = 0;
  auto next = std::upper_bound(counted_.begin(), counted_.end(), first);
  bool counts = (next - counted_.begin()) % 2 == 1;
  for (uint64_t at = first, end = first + count; at < end;) {
    const uint64_t until = next == counted_.end() ? end : std::min(end, *next);
    if (counts) out += until - at;
    at = until;
    for (; next != counted_.end() && *next == at; ++next) counts = !counts;
  }
  return out;
}

void token_stream::document_starts(uint64_t first, std::span<const int64_t> tokens, std::span<uint32_t> out) const {
  assert(out.size() == tokens.size());
  auto next = std::upper_bound(starts_.begin(), starts_.end(), first);
  uint32_t start = 0;
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && end_of_text_ && tokens[i - 1] == *end_of_text_) start = i;
    for (; next != starts_.end() && *next == first + i; ++next) start = i;
    out[i] = start;
  }
}

}  // namespace troupe::data
