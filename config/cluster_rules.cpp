// Rules between the keys of processes and the degrees: how many ranks there are for them. Leaves open degrees beside
// processes to open_degrees.cpp.
#include <fmt/format.h>

#include "config/resolve.hpp"

namespace troupe::config {

void cluster_rules(const settings& given, job_config& config, reporter& report, origins& derived) {
  constexpr std::string_view processes = "cluster.processes", fewest = "cluster.min_ranks",
                             in_memory = "checkpoint.memory.every_steps";
  if (given.value_of(in_memory) == nullptr) {
    config.checkpoint.memory.every_steps = config.cluster.is_on() ? 1 : 0;
    derived.emplace(in_memory, "derived");
  }
  for (const std::string_view key :
       {"parallel", "parallel.ranks", "parallel.data", "parallel.shard", "parallel.pipeline", "parallel.tensor",
        "parallel.sequence", "parallel.context", "tensor_parallel.autotp_size"})
    if (given.was_refused(key)) return;
  const auto error = [&](std::string_view key, std::string text) {
    report.error(given.where(key), std::string(key), std::move(text));
  };
  const auto& c = config.cluster;
  const auto& p = config.parallel;
  const uint64_t ranks = uint64_t{p.pipeline} * p.data * p.sequence * p.context * p.tensor;
  if (c.min_ranks > ranks) error(fewest, fmt::format("wanted at most the job's {} ranks, got {}", ranks, c.min_ranks));
  if (c.choice != process_choice::number) return;
  if (c.number > ranks)
    error(processes, fmt::format("wanted at most the job's {} ranks, got {}", ranks, c.number));
  else if (ranks % c.number != 0)
    error(processes, fmt::format("wanted a divisor of the job's {} ranks, got {}", ranks, c.number));
}

}  // namespace troupe::config
