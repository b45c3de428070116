// Formats the network traffic of a job on several machines for `troupe plan`: the bytes that enter each machine in a
// step.
#include "apps/plan/plan_parts.hpp"

#include <fmt/format.h>

#include <optional>

#include "core/text.hpp"
#include "job/machine_traffic.hpp"

namespace troupe::apps {

core::result<std::string> machines_summary(const job::blueprint& b) {
  const auto& hosts = b.config->cluster.hosts;
  if (hosts.size() < 2) return std::string();
  std::optional<job::step_plans> saving;
  if (b.config->checkpoint.memory.every_steps > 0) {
    TROUPE_ASSIGN(auto written, b.write(plan::plan_choice::train_saving));
    saving = std::move(written);
  }
  TROUPE_ASSIGN(const auto traffic, job::traffic_of(*b.config, b.train, saving ? &*saving : nullptr));
  std::string out = "over the network in a step:";
  for (size_t m = 0; m < hosts.size(); ++m) {
    out += fmt::format("{} {} takes {}", m == 0 ? "" : ",", hosts[m].name, core::human_bytes(traffic.entered_bytes[m]));
    if (traffic.kept_bytes[m] > 0) out += fmt::format(" and {} to keep", core::human_bytes(traffic.kept_bytes[m]));
  }
  return out + "\n";
}

}  // namespace troupe::apps
