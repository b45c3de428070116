#include "plan/layout/bucket_order.hpp"

#include <algorithm>
#include <set>

#include "plan/layout/buckets.hpp"

namespace troupe::plan {
namespace {

/// The buckets that a stage writes to if its backward is split. at_once: buckets that are written during the input
/// part, because the backward of their units is not split. with_weights: buckets that are written during the weight
/// part.
struct written_buckets {
  std::set<uint32_t> at_once, with_weights;
};

std::vector<written_buckets> buckets_of_stages(const job_layout& l) {
  std::vector<written_buckets> out(l.num_stages());
  const auto writes = contributions(*l.table);
  for (uint32_t q = 0; q < writes.size(); ++q)
    for (const auto& c : writes[q]) {
      auto& of_stage = out[l.stage_of_unit[c.unit]];
      (l.options.compressed.is_unsplit(c.unit) ? of_stage.at_once : of_stage.with_weights).insert(l.bucket_of[q]);
    }
  return out;
}

}  // namespace

std::vector<std::vector<uint32_t>> bucket_orders(const job_layout& l) {
  if (l.options.pipeline.first_unit.empty()) return {};
  const auto buckets_of = buckets_of_stages(l);
  const size_t micros = l.options.accumulation;
  // [bucket * micros + micro]: number of gradients that have yet to be written to the bucket
  std::vector<uint32_t> missing(l.buckets.size() * micros, 0);
  for (const auto& stage : buckets_of)
    for (const auto* buckets : {&stage.at_once, &stage.with_weights})
      for (const uint32_t b : *buckets)
        for (size_t m = 0; m < micros; ++m) ++missing[b * micros + m];
  std::vector<std::vector<uint32_t>> out(l.buckets.size());
  for (const auto& order : l.options.pipeline.table.orders)
    for (const action& each : order)
      for_each_part(each, [&](const action& a) {
        const auto write = [&](const std::set<uint32_t>& buckets) {
          for (const uint32_t b : buckets)
            if (--missing[b * micros + a.micro] == 0) out[b].push_back(a.micro);
        };
        const bool whole = a.type == action_type::backward;
        if (whole || a.type == action_type::backward_input) write(buckets_of[a.stage].at_once);
        if (whole || a.type == action_type::backward_weight) write(buckets_of[a.stage].with_weights);
      });
  if (std::ranges::all_of(out, [](const auto& order) { return std::ranges::is_sorted(order); })) return {};
  return out;
}

}  // namespace troupe::plan
