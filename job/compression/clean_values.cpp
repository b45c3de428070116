#include "job/compression/clean_values.hpp"

#include <algorithm>
#include <cassert>

#include "kernels/base/cast.hpp"
#include "kernels/compress/fake_quantise.hpp"
#include "kernels/compress/pruning.hpp"

namespace troupe::job {

namespace {

/// Returns the values rounded as in a run whose parameters are of type `used`.
std::vector<float> rounded_to(core::dtype used, std::span<const float> values) {
  std::vector<float> out(values.begin(), values.end());
  std::vector<std::byte> bytes(values.size() * core::size_of(used));
  kernels::cast(reinterpret_cast<const std::byte*>(values.data()), core::dtype::f32, bytes.data(), used, values.size());
  kernels::cast(bytes.data(), used, reinterpret_cast<std::byte*>(out.data()), core::dtype::f32, values.size());
  return out;
}

}  // namespace

kernels::mask_bits mask_of_scores(std::span<const float> scores, uint64_t kept, core::dtype used) {
  std::vector<uint8_t> keep(scores.size());
  kernels::keep_largest(rounded_to(used, scores), kept, keep);
  return kernels::packed_mask(keep);
}

void put_on_grid(const kernels::weight_recipe& recipe, core::dtype used, core::dtype type, std::span<std::byte> whole) {
  const uint64_t elements = recipe.elements();
  std::vector<std::byte> before(elements * core::size_of(used)), after(before.size());
  std::vector<std::byte> room(recipe.room_elements() * core::size_of(used));
  kernels::cast(whole.data(), type, before.data(), used, elements);
  kernels::compress_weight(recipe, used, before.data(), after.data(), room);
  kernels::cast(after.data(), used, whole.data(), type, elements);
}

std::vector<float> scales_of_grid(const kernels::weight_recipe& recipe, core::dtype used,
                                  std::span<const float> weight) {
  assert(recipe.grid.kind != kernels::quantiser_kind::asymmetric);
  std::vector<float> values = rounded_to(used, weight);
  const auto bytes = std::as_writable_bytes(std::span(values));
  const bool has_grid = recipe.grid.has_grid();
  if (!has_grid) put_on_grid(recipe, used, core::dtype::f32, bytes);
  if (recipe.transposed) {
    const std::vector<float> lying = values;
    kernels::to_order(recipe, core::dtype::f32, reinterpret_cast<const std::byte*>(lying.data()), 0, values.size(),
                      bytes.data());
  }
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
