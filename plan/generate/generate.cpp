#include "plan/generate/generate.hpp"

#include <cassert>
#include <utility>

#include "plan/generate/explain.hpp"
#include "plan/layout/own.hpp"
#include "plan/place/place.hpp"
#include "plan/schedule/uses.hpp"
#include "plan/write/write.hpp"

namespace troupe::plan {
namespace {

explained_plan run_phases(std::shared_ptr<const job_layout> layout, uint32_t rank, const pass_order& passes) {
  auto p = std::make_shared<rank_plan>(own_part(std::move(layout), rank));
  draft d = write(*p, uses_of(*p));
  account written{"write", d.take_changes(), "the schedule in its plain form"};
  auto accounts = run_passes(d, *p, passes);
  accounts.insert(accounts.begin(), std::move(written));
  place(std::move(d), *p);
  return {std::move(p), std::move(accounts)};
}

}  // namespace

core::result<explained_plan> explain(std::shared_ptr<const job_layout> layout, uint32_t rank,
                                     std::span<const pass> passes) {
  const auto order = in_order(passes);
  if (!order) return core::fail(order.error());
  return run_phases(std::move(layout), rank, *order);
}

std::shared_ptr<const rank_plan> generate(std::shared_ptr<const job_layout> layout, uint32_t rank) {
  const auto order = in_order(all_passes());
  assert(order.has_value());
  return run_phases(std::move(layout), rank, *order).plan;
}

}  // namespace troupe::plan
