#include "plan/layout/layout.hpp"

#include <algorithm>

#include "core/math.hpp"

namespace troupe::plan {
namespace {


}  // namespace

uint64_t offset_in(const parameter_set& set, uint32_t parameter) {
  const auto it = std::find_if(set.parameters.begin(), set.parameters.end(),
                               [&](const placement& x) { return x.parameter == parameter; });
  return it->offset;
}

parameter_set lay_out(const core::model_table& table, const std::vector<uint32_t>& parameters, std::string name) {
  parameter_set out;
  out.name = std::move(name);
  for (uint32_t q : parameters) {
    out.parameters.push_back({q, out.elements});
    out.elements += core::round_up(table.parameters[q].numel(), core::parameter_grain);
    out.numel += table.parameters[q].numel();
  }
  return out;
}

uint64_t near_place(const rank_slices& of_rank, const rank_offsets& at, uint32_t set, uint32_t parameter) {
  uint64_t out = at.near[set];
  for (const auto& x : of_rank.layout().gather_sets[set].parameters) {
    if (x.parameter == parameter) break;
    out += core::round_up(of_rank.near(x.parameter).count, core::parameter_grain);
  }
  return out;
}

uint64_t near_elements(const rank_plan& p, uint32_t set) {
  const rank_slices mine(*p.layout, p.rank);
  uint64_t out = 0;
  for (const auto& x : p.layout->gather_sets[set].parameters) out += mine.near(x.parameter).count;
  return out;
}

gradient_place reduced_gradient(const rank_slices& of_rank, const rank_offsets& at, uint32_t parameter,
                                uint64_t first) {
  const job_layout& l = of_rank.layout();
  const uint32_t bucket = l.bucket_of[parameter];
  if (l.options.reduces_in_place()) return {true, offset_in(l.buckets[bucket], parameter) + first};
  const uint64_t place = at.state[parameter] + first - of_rank.state(parameter).first;
  return {false, l.swaps_gradients() ? place - at.bucket_begin[bucket] : place};
}

gradient_place reduced_gradient(const rank_plan& p, uint32_t parameter, uint64_t first) {
  return reduced_gradient(rank_slices(*p.layout, p.rank), p.offsets, parameter, first);
}

}  // namespace troupe::plan
