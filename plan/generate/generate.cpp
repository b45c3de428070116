#include "plan/generate/generate.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/generate/explain.hpp"
#include "plan/layout/own.hpp"
#include "plan/place/place.hpp"
#include "plan/schedule/uses.hpp"
#include "plan/write/write.hpp"

namespace troupe::plan {

core::result<explained_plan> explain(std::shared_ptr<const job_layout> layout, uint32_t rank) {
  TROUPE_ASSIGN(const auto order, in_order(passes_of(layout->options)));
  auto p = std::make_shared<rank_plan>(own_part(std::move(layout), rank));
  draft d = write(*p, uses_of(*p));
  std::vector<account> accounts{{"write", d.take_changes(), "the schedule in its plain form"}};
  TROUPE_ASSIGN(auto changed, run_passes(d, *p, order));
  std::ranges::move(changed, std::back_inserter(accounts));
  place(std::move(d), *p);
  return explained_plan{std::move(p), std::move(accounts)};
}

core::result<std::shared_ptr<const rank_plan>> generate(std::shared_ptr<const job_layout> layout, uint32_t rank) {
  TROUPE_ASSIGN(auto made, explain(std::move(layout), rank));
  return std::move(made.plan);
}

}  // namespace troupe::plan
