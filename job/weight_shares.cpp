#include "job/weight_shares.hpp"

#include <algorithm>
#include <utility>

#include "core/tp_slices.hpp"

namespace troupe::job {
namespace {

std::vector<kernels::matrix_run> runs_of(std::vector<int64_t> shape, core::parameter_cut cut, uint32_t coordinate,
                                         bool transposed) {
  if (transposed) {
    std::swap(shape[0], shape[1]);
    cut.dimension = 1 - cut.dimension;
  }
  const core::tp_slices slices(shape, cut, coordinate);
  std::vector<kernels::matrix_run> out;
  for (const core::tp_run& run : slices.runs(0, slices.elements()))
    if (!run.is_padding()) out.push_back({run.local, run.whole, run.count});
  return out;
}

}  // namespace

core::result<std::vector<kernels::matrix_share>> shares_of(const kernels::weight_recipe& whole,
                                                           const core::parameter_info& info,
                                                           const core::parameter_info& local,
                                                           const core::parameter_cut& cut, uint32_t degree) {
  std::vector<kernels::matrix_share> out;
  for (uint32_t t = 0; t < degree; ++t) {
    kernels::matrix_share s;
    s.recipe = whole;
    s.recipe.rows = static_cast<uint64_t>(local.shape[0]);
    s.recipe.columns = static_cast<uint64_t>(local.shape[1]);
    s.group_size = whole.elements() / whole.groups;
    s.in_order = whole.room_elements() > 0;
    s.runs = runs_of(info.shape, cut, t, s.in_order);
    if (!whole.grid.has_grid() && s.has_parts_of_groups())
      return core::fail(core::error_kind::bad_input,
                        "wanted groups that lie on one tensor rank each where weights have " +
                            std::to_string(whole.grid.bits) + " bits, got parts of a group of " +
                            std::to_string(s.group_size) + " elements");
    out.push_back(std::move(s));
  }
  return out;
}

uint64_t agreed_ranges(const std::vector<kernels::matrix_share>& shares) {
  const bool any = std::ranges::any_of(shares, [](const auto& s) { return s.has_parts_of_groups(); });
  return any ? shares.front().recipe.groups : 0;
}

}  // namespace troupe::job
