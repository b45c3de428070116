#include "apps/run/asked_degrees.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <span>

#include "job/feasible_degree.hpp"

namespace troupe::apps {
namespace {

/// Checks that the job's processes suffice for all degrees: they are started once for the first degree, and with a
/// later degree some of them may have no ranks.
core::result<void> check_places(const config::job_config& c, const std::vector<job::degree_change>& all) {
  if (!c.cluster.is_on()) return {};
  const auto refused = [](std::string text) { return core::fail(core::error_kind::bad_input, std::move(text)); };
  const bool spans_hosts = !c.cluster.hosts.empty();
  const auto first = all.front().data;
  if (spans_hosts && first != c.parallel.data)
    return refused(
        fmt::format("wanted {}@0 first, the data ranks that cluster.hosts has ranks for, got {}@0: give the hosts "
                    "as many as the run begins with",
                    c.parallel.data, first));
  for (const auto& x : std::span(all).subspan(1))
    if (x.data > first)
      return refused(fmt::format(
          "wanted at most {} data ranks, for which {}, got {}@{}: begin with the most{}", first,
          spans_hosts ? "cluster.hosts has ranks" : "the job's processes are started", x.data, x.step,
          spans_hosts ? ", and give the hosts as many" : ", or train in one process (cluster.processes=one)"));
  return {};
}

}  // namespace

core::result<std::vector<job::degree_change>> asked_degrees(const std::string& text, const config::job_config& config) {
  auto out = job::read_degree_changes(text);
  if (!out) return out;
  TROUPE_TRY(check_places(config, *out));
  for (const auto& x : *out)
    if (const auto cut = job::batch_at_degree(config, x.data); !cut)
      return core::fail(cut.error().in(fmt::format("{}@{}", x.data, x.step)));
  return out;
}

void warn_of_unreached(const std::vector<job::degree_change>& changes, uint64_t steps) {
  if (const auto some = job::unreached(changes, steps); !some.empty())
    std::fprintf(
        stderr,
        "troupe: warning: --degrees: %s: no effect: the run ends after %llu steps; leave it out, or train more "
        "steps\n",
        some.c_str(), static_cast<unsigned long long>(steps));
}

common_arguments at_data_ranks(common_arguments a, const config::job_config& config, uint32_t data) {
  const auto cut = job::batch_at_degree(config, data);
  a.set.push_back(fmt::format("parallel.data={}", data));
  if (config.parallel.all)
    a.set.push_back(fmt::format("parallel.ranks={}", job::ranks_of_replica(config.parallel) * data));
  // Under `elasticity`, that section determines the batch size, and keys of the batch are refused.
  if (!cut || config.elasticity.enabled) return a;
  a.set.push_back(fmt::format("train_batch_size={}", config.train_batch_size));
  a.set.push_back(fmt::format("train_micro_batch_size_per_gpu={}", cut->rows));
  a.set.push_back(fmt::format("gradient_accumulation_steps={}", cut->accumulation));
  return a;
}

}  // namespace troupe::apps
