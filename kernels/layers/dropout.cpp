// Draws dropout masks in blocks that stay in the cache, and applies them in place.
#include "kernels/layers/dropout.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/random.hpp"
#include "kernels/layers/elementwise.hpp"

namespace troupe::kernels {
namespace {

/// Number of elements whose mask is drawn and applied at a time.
constexpr uint64_t block_numel = 4096;
static_assert(block_numel % random_chunk == 0);

}  // namespace

void draw(uint8_t* keep, uint64_t count, const dropout_key& key, uint64_t first_position) {
  dropout_mask({keep, count}, key.probability, key.seed, key.step, key.sample, key.layer, key.site, first_position);
}

void drop(std::byte* x, core::dtype type, uint64_t count, const dropout_key& key, uint64_t first_position) {
  std::array<uint8_t, block_numel> keep;
  for (uint64_t first = 0; first < count; first += block_numel) {
    const uint64_t block = std::min(block_numel, count - first);
    draw(keep.data(), block, key, first_position + first);
    scale_kept(x + first * core::size_of(type), type, keep.data(), key.factor(), block);
  }
}

}  // namespace troupe::kernels
