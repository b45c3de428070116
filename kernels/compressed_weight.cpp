#include "kernels/compressed_weight.hpp"

#include <algorithm>
#include <cassert>

#include "kernels/fake_quantise.hpp"

namespace troupe::kernels {
namespace {

/// Elements of (out, in) that lie as (in, out): `first` to `first + count`, between the matrix and a run of memory.
/// Outputs are taken a few at a time, so that a row of memory is read once for all of them.
template <class Copy>
void walk_transposed(const weight_recipe& r, uint64_t first, uint64_t count, Copy copy) {
  constexpr uint64_t outputs_at_once = 16;
  const uint64_t in = r.rows, end = first + count;
  for (uint64_t block = first / in; block * in < end; block += outputs_at_once) {
    const uint64_t last = std::min(block + outputs_at_once, (end + in - 1) / in);
    for (uint64_t i = 0; i < in; ++i)
      for (uint64_t o = block; o < last; ++o)
        if (const uint64_t at = o * in + i; at >= first && at < end) copy(i * r.columns + o, at - first);
  }
}

template <class Element>
void compress_transposed(const weight_recipe& r, core::dtype type, const std::byte* weight, std::byte* out,
                         std::span<std::byte> room) {
  const auto* from = reinterpret_cast<const Element*>(weight);
  auto* to = reinterpret_cast<Element*>(out);
  auto* group = reinterpret_cast<Element*>(room.data());
  const uint64_t size = r.elements() / r.groups;
  for (uint64_t first = 0; first < r.elements(); first += size) {
    walk_transposed(r, first, size, [&](uint64_t there, uint64_t here) { group[here] = from[there]; });
    fake_quantise({room.data(), type, 1, size}, r.grid, room.data());
    walk_transposed(r, first, size, [&](uint64_t there, uint64_t here) { to[there] = group[here]; });
  }
}

}  // namespace

uint64_t weight_recipe::room_elements() const {
  // The range of all elements does not depend on their order; a sum of them does.
  return transposed && (groups > 1 || !grid.has_grid()) ? elements() / groups : 0;
}

void compress_weight(const weight_recipe& recipe, core::dtype type, const std::byte* weight, std::byte* out,
                     std::span<std::byte> room) {
  const uint64_t element_bytes = core::size_of(type);
  assert(room.size() >= recipe.room_elements() * element_bytes);
  if (recipe.room_elements() == 0)
    return fake_quantise({weight, type, recipe.groups, recipe.elements() / recipe.groups}, recipe.grid, out);
  // Whatever the type, elements are only moved here.
  if (element_bytes == 2) return compress_transposed<uint16_t>(recipe, type, weight, out, room);
  if (element_bytes == 4) return compress_transposed<uint32_t>(recipe, type, weight, out, room);
  compress_transposed<uint64_t>(recipe, type, weight, out, room);
}

}  // namespace troupe::kernels
