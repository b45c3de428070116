#include "kernels/compress/block_codes.hpp"

#include <array>
#include <cstring>

#include "kernels/compress/small_blocks.hpp"

namespace troupe::kernels {
namespace {

constexpr bool is_affine(block_format f) { return f == block_format::q4_1 || f == block_format::q5_1; }
constexpr bool has_fifth(block_format f) { return f == block_format::q5_0 || f == block_format::q5_1; }

}  // namespace

block_grid grid_of(block_format f, const std::byte* block) {
  block_grid out{.scale = load_half(block)};
  if (f == block_format::q8_0) {
    out.low = -127;
    out.high = 127;
    return out;
  }
  out.high = has_fifth(f) ? 31 : 15;
  out.offset = is_affine(f) ? load_half(block + 2) : out.scale * (has_fifth(f) ? -16.0F : -8.0F);
  return out;
}

void pack_block(block_format f, const block_grid& grid, std::span<const int16_t, 32> q, std::byte* out) {
  store_half(grid.scale, out);
  out += 2;
  if (f == block_format::q8_0) {
    for (uint32_t i = 0; i < small_block; ++i) out[i] = static_cast<std::byte>(static_cast<int8_t>(q[i]));
    return;
  }
  if (is_affine(f)) {
    store_half(grid.offset, out);
    out += 2;
  }
  std::array<uint32_t, small_block> codes{};
  uint32_t fifth = 0;
  for (uint32_t i = 0; i < small_block; ++i) {
    codes[i] = static_cast<uint32_t>(q[i]);
    fifth |= (codes[i] >> 4U & 1U) << i;
  }
  if (has_fifth(f)) {
    std::memcpy(out, &fifth, sizeof fifth);
    out += sizeof fifth;
  }
  for (uint32_t i = 0; i < half_block; ++i)
    out[i] = static_cast<std::byte>((codes[i] & 15U) | (codes[i + half_block] & 15U) << 4U);
}

}  // namespace troupe::kernels
