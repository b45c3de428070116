#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "apps/plan/plan_parts.hpp"
#include "core/text.hpp"

namespace troupe::apps {

std::string interval_summary(const job::predicted_interval& interval) {
  std::vector<std::string> most;
  for (const auto& one : interval.matter_most)
    most.push_back(fmt::format("{} {}", one.constant, core::text_of("%+.2f %%", one.percent)));
  return fmt::format("80 % of runs are expected within {} to {} ms; 1 % more of the constants that matter most: {}\n",
                     core::text_of("%.1f", 1e3 * interval.low_s), core::text_of("%.1f", 1e3 * interval.high_s),
                     fmt::join(most, ", "));
}

}  // namespace troupe::apps
