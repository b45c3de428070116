#include "plan/layout/bucket_order.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "plan/layout/buckets.hpp"

namespace troupe::plan {
namespace {

/// [stage] The buckets that it writes to.
std::vector<std::vector<uint32_t>> buckets_of_stages(const job_layout& l) {
  std::set<std::pair<uint32_t, uint32_t>> all;
  const auto writes = contributions(*l.table);
  for (uint32_t q = 0; q < writes.size(); ++q)
    for (const auto& c : writes[q]) all.emplace(l.stage_of_unit[c.unit], l.bucket_of[q]);
  std::vector<std::vector<uint32_t>> out(l.num_stages());
  for (const auto& [stage, bucket] : all) out[stage].push_back(bucket);
  return out;
}

}  // namespace

std::vector<std::vector<uint32_t>> bucket_orders(const job_layout& l) {
  if (l.options.pipeline.first_unit.empty()) return {};
  const auto buckets_of = buckets_of_stages(l);
  const size_t micros = l.options.accumulation;
  std::vector<uint32_t> missing(l.buckets.size() * micros, 0);  // stages that have not yet written
  for (const auto& buckets : buckets_of)
    for (const uint32_t b : buckets)
      for (size_t m = 0; m < micros; ++m) ++missing[b * micros + m];
  std::vector<std::vector<uint32_t>> out(l.buckets.size());
  for (const auto& order : l.options.pipeline.table.orders)
    for (const action& each : order)
      for_each_part(each, [&](const action& a) {
        if (a.type != action_type::backward && a.type != action_type::backward_weight) return;
        for (const uint32_t b : buckets_of[a.stage])
          if (--missing[b * micros + a.micro] == 0) out[b].push_back(a.micro);
      });
  if (std::ranges::all_of(out, [](const auto& order) { return std::ranges::is_sorted(order); })) return {};
  return out;
}

}  // namespace troupe::plan
