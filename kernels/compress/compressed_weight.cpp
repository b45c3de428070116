#include "kernels/compress/compressed_weight.hpp"

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "kernels/base/with_dtype.hpp"
#include "kernels/compress/fake_quantise.hpp"

namespace troupe::kernels {
namespace {

/// Calls copy(index in memory, index from 0) for elements `first` to `first + count`, in the order (out, in), of a
/// matrix stored as (in, out). Processes 16 outputs at a time, so that a row of memory is read once for all of them.
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

/// Calls `f` with an unsigned integer type of the size of `type`, for functions that only move elements.
template <class F>
void as_integers(core::dtype type, F f) {
  const uint64_t element_bytes = core::size_of(type);
  if (element_bytes == 2) return f(std::type_identity<uint16_t>());
  if (element_bytes == 4) return f(std::type_identity<uint32_t>());
  f(std::type_identity<uint64_t>());
}

/// Least number of outputs per group for which a group of a transposed matrix is quantised in place, without a copy in
/// the order (out, in). With fewer outputs, the pieces of memory rows that belong to a group are too short for vectors.
constexpr uint64_t outputs_in_place = 16;

/// Quantises, in place in memory order, the groups of a transposed matrix that consist of whole outputs: a group has
/// `width` neighbouring elements of each memory row. Possible only for grids, because a range does not depend on the
/// order of elements, as a sum does.
void compress_outputs(const weight_recipe& r, const quantiser& grid, core::dtype type, const std::byte* weight,
                      std::byte* out) {
  const uint64_t bytes = core::size_of(type), width = r.columns / r.groups;
  for (uint64_t first = 0; first < r.columns; first += width) {
    const auto at = [&](uint64_t input) { return (input * r.columns + first) * bytes; };
    value_range<double> all;
    for (uint64_t i = 0; i < r.rows; ++i) {
      value_range<double> here;
      group_ranges({weight + at(i), type, 1, width}, {&here, 1});
      all = i == 0 ? here : joined(all, here);
    }
    for (uint64_t i = 0; i < r.rows; ++i)
      fake_quantise_within({weight + at(i), type, 1, width}, grid, {&all, 1}, out + at(i));
  }
}

template <class Element>
void compress_transposed(const weight_recipe& r, core::dtype type, const std::byte* weight, std::byte* out,
                         std::span<std::byte> room, const weight_moment& now) {
  const auto* from = reinterpret_cast<const Element*>(weight);
  auto* to = reinterpret_cast<Element*>(out);
  auto* group = reinterpret_cast<Element*>(room.data());
  const uint64_t size = r.elements() / r.groups;
  const quantiser grid = now.grid.value_or(r.grid);
  if (grid.has_grid() && !now.noise && r.columns % r.groups == 0 && r.columns / r.groups >= outputs_in_place)
    return compress_outputs(r, grid, type, weight, out);
  for (uint64_t first = 0; first < r.elements(); first += size) {
    walk_transposed(r, first, size, [&](uint64_t there, uint64_t here) { group[here] = from[there]; });
    const stochastic_rounding noise{now.noise.value_or(rounding_key{}), first};
    fake_quantise({room.data(), type, 1, size}, grid, room.data(), now.noise ? &noise : nullptr);
    walk_transposed(r, first, size, [&](uint64_t there, uint64_t here) { to[there] = group[here]; });
  }
}

}  // namespace

uint64_t weight_recipe::room_elements() const {
  // A single group with a grid needs no copy in the order (out, in), because the range of all elements does not depend
  // on their order. A sum does, and so does the noise of stochastic rounding.
  return transposed && (groups > 1 || !grid.has_grid() || stochastic) ? elements() / groups : 0;
}

void compress_weight(const weight_recipe& recipe, core::dtype type, const std::byte* weight, std::byte* out,
                     std::span<std::byte> room, const weight_moment& now) {
  assert(room.size() >= recipe.room_elements() * core::size_of(type));
  const stochastic_rounding noise{now.noise.value_or(rounding_key{}), 0};
  if (recipe.room_elements() == 0)
    fake_quantise({weight, type, recipe.groups, recipe.elements() / recipe.groups}, now.grid.value_or(recipe.grid), out,
                  now.noise ? &noise : nullptr);
  else
    as_integers(type, [&]<class Element>(std::type_identity<Element>) {
      compress_transposed<Element>(recipe, type, weight, out, room, now);
    });
  mix(type, weight, out, recipe.elements(), now.kept);
}

void to_order(const weight_recipe& recipe, core::dtype type, const std::byte* weight, uint64_t first, uint64_t count,
              std::byte* ordered) {
  as_integers(type, [&]<class Element>(std::type_identity<Element>) {
    const auto* from = reinterpret_cast<const Element*>(weight);
    auto* to = reinterpret_cast<Element*>(ordered);
    walk_transposed(recipe, first, count, [&](uint64_t there, uint64_t here) { to[here] = from[there]; });
  });
}

void from_order(const weight_recipe& recipe, core::dtype type, const std::byte* ordered, std::byte* weight) {
  as_integers(type, [&]<class Element>(std::type_identity<Element>) {
    const auto* from = reinterpret_cast<const Element*>(ordered);
    auto* to = reinterpret_cast<Element*>(weight);
    walk_transposed(recipe, 0, recipe.elements(), [&](uint64_t there, uint64_t here) { to[there] = from[here]; });
  });
}

void mix(core::dtype type, const std::byte* weight, std::byte* out, uint64_t elements, float kept) {
  if (kept == 0) return;
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    using real = decltype(widen(T{}) + 0.0F);
    const auto* w = reinterpret_cast<const T*>(weight);
    auto* y = reinterpret_cast<T*>(out);
    const real of_weight = kept, of_grid = 1 - of_weight;
    for (uint64_t i = 0; i < elements; ++i)
      y[i] = narrow<T>(of_weight * static_cast<real>(widen(w[i])) + of_grid * static_cast<real>(widen(y[i])));
  });
}

}  // namespace troupe::kernels
