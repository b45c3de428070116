// The connections of one process of a job to the other processes during a term (the time in which processes and ranks
// stay the same). Plain handles, which each new term replaces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/processes/calls.hpp"
#include "actors/processes/memory_saves.hpp"
#include "actors/processes/part_taker.hpp"
#include "actors/processes/shared_term.hpp"
#include "actors/run/reports.hpp"
#include "cluster/process.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::actors {

struct process_links {
  std::shared_ptr<cluster::process> link;         ///< link to the supervisor and the other processes of the job
  std::shared_ptr<const config::job_config> job;  ///< the configuration as loaded, with the largest degrees
  std::optional<term_members> members;            ///< processes of the current term; none: there is no term
  /// Secret with which the processes of this term authenticate connections between machines
  std::string secret;
  std::shared_ptr<shared_term> shared;  ///< resources that processes share; null until made
  std::unique_ptr<memory_saves> saves;  ///< the process's files of saves in memory; null between terms
  /// receives the results of other processes' parts of a save; shared with callbacks of `link`
  std::shared_ptr<part_taker> parts;
  std::vector<uint64_t> peak_bytes;  ///< [rank]: peak bytes of activations, as the other processes have reported
  /// schedule of passes that a host program has set instead of the configuration's; none: not set
  std::optional<std::vector<told_schedule>> schedule;
  recovery_counts counts;

  [[nodiscard]] bool is_here(uint32_t rank) const { return !members || members->is_here(rank); }
  [[nodiscard]] bool leads() const { return members && members->leads(); }
};

}  // namespace troupe::actors
