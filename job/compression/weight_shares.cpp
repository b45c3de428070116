#include "job/compression/weight_shares.hpp"

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

std::vector<kernels::matrix_share> shares_of(const kernels::weight_recipe& whole, const core::parameter_info& info,
                                             const core::parameter_info& local, const core::parameter_cut& cut,
                                             uint32_t degree, bool ternary) {
  std::vector<kernels::matrix_share> out;
  for (uint32_t t = 0; t < degree; ++t) {
    kernels::matrix_share s;
    s.recipe = whole;
    s.recipe.rows = static_cast<uint64_t>(local.shape[0]);
    s.recipe.columns = static_cast<uint64_t>(local.shape[1]);
    s.group_size = whole.elements() / whole.groups;
    s.in_order = whole.room_elements() > 0;
    s.runs = runs_of(info.shape, cut, t, s.in_order);
    s.is_ternary = ternary;
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<pruned_share> shares_of(const pruned_module& m, const chosen_tensor& tensor) {
  const auto cuts = [&](uint32_t q) { return tensor.cut.parameters[q].cuts(); };
  if (tensor.split.degree == 1 || (!cuts(m.weight) && !(m.bias && cuts(*m.bias)))) return {};
  const auto runs = [&](uint32_t q, uint32_t t) {
    const auto& whole = tensor.whole->parameters[q];
    const core::tp_slices slices(whole.shape, tensor.cut.parameters[q], t);
    return slices.runs(0, slices.elements());
  };
  std::vector<pruned_share> out(tensor.split.degree);
  for (uint32_t t = 0; t < tensor.split.degree; ++t) {
    out[t].weight = runs(m.weight, t);
    if (m.bias) out[t].bias = runs(*m.bias, t);
  }
  return out;
}

uint64_t agreed_ranges(const std::vector<kernels::matrix_share>& shares) {
  const bool any = std::ranges::any_of(shares, [](const auto& s) { return s.has_parts_of_groups(); });
  return any ? shares.front().told() : 0;
}

}  // namespace troupe::job
