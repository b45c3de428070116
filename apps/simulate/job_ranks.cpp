#include "apps/simulate/job_ranks.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/base/exit_code.hpp"
#include "apps/simulate/job_workload.hpp"

namespace troupe::apps {
namespace {

/// Returns the overrides with which the job has `ranks` ranks.
core::result<std::vector<std::string>> overrides_for(const config::loaded& before, uint64_t ranks) {
  if (!before.config.open_degrees.empty())
    return core::refused("--ranks: wanted a job whose degrees are numbers, got one with degrees that are auto");
  TROUPE_ASSIGN(const uint32_t data, data_degree_for(before.config.parallel, ranks));
  std::vector<std::string> out{fmt::format("parallel.data={}", data)};
  if (before.config.parallel.all) out.push_back(fmt::format("parallel.ranks={}", ranks));
  return out;
}

}  // namespace

std::optional<config::loaded> load_with_ranks(const simulate_arguments& a, std::optional<config::job_config>& before) {
  if (a.ranks == 0) return load_configuration(a, std::nullopt, intent::plan);
  common_arguments job_of = a;
  const auto loaded = load_configuration(job_of, std::nullopt, intent::plan, config::reading::job, {}, false);
  if (!loaded) return load_configuration(job_of, std::nullopt, intent::plan);  // says what is wrong
  const auto more = overrides_for(*loaded, a.ranks);
  if (!more) {
    static_cast<void>(failed(more.error()));
    return std::nullopt;
  }
  before = loaded->config;
  job_of.set.insert(job_of.set.end(), more->begin(), more->end());
  return load_configuration(job_of, std::nullopt, intent::plan);
}

}  // namespace troupe::apps
