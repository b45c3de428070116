// Reading tokens back; open_tokens.cpp brings them in.
#include "data/token_stream.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace troupe::data {
namespace {

static_assert(std::endian::native == std::endian::little, ".bin files are read as they lie");

template <class Token>
void widen(const std::byte* from, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Token t;
    std::memcpy(&t, from + i * sizeof(Token), sizeof(Token));
    out[i] = static_cast<int64_t>(t);
  }
}

}  // namespace

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
