#include "job/clean_values.hpp"

#include <algorithm>
#include <cassert>

#include "kernels/fake_quantise.hpp"
#include "kernels/pruning.hpp"

namespace troupe::job {

kernels::mask_bits mask_of_scores(std::span<const float> scores, uint64_t kept) {
  std::vector<uint8_t> keep(scores.size());
  kernels::keep_largest(scores, kept, keep);
  return kernels::packed_mask(keep);
}

void put_on_grid(const kernels::weight_recipe& recipe, core::dtype type, std::span<std::byte> whole) {
  const std::vector<std::byte> before(whole.begin(), whole.end());
  std::vector<std::byte> room(recipe.room_elements() * core::size_of(type));
  kernels::compress_weight(recipe, type, before.data(), whole.data(), room);
}

std::vector<float> scales_of_grid(const kernels::weight_recipe& recipe, std::span<const float> weight) {
  assert(!recipe.transposed && recipe.grid.kind != kernels::quantiser_kind::asymmetric);
  std::vector<float> values(weight.begin(), weight.end());
  const bool has_grid = recipe.grid.has_grid();
  if (!has_grid) put_on_grid(recipe, core::dtype::f32, std::as_writable_bytes(std::span(values)));
  std::vector<kernels::value_range<double>> ranges(recipe.groups);
  kernels::group_ranges({reinterpret_cast<const std::byte*>(values.data()), core::dtype::f32, recipe.groups,
                         recipe.elements() / recipe.groups},
                        ranges);
  std::vector<float> out;
  for (const auto& range : ranges) {
    const kernels::value_range<float> narrow{static_cast<float>(range.least), static_cast<float>(range.largest)};
    const auto grid = kernels::grid_of<float>({kernels::quantiser_kind::symmetric, recipe.grid.bits}, narrow);
    out.push_back(!has_grid ? std::max(-narrow.least, narrow.largest) : grid.quantises ? grid.scale : 0);
  }
  return out;
}

}  // namespace troupe::job
