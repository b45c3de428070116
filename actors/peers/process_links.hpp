// Connects one process of a job with the others during a term. Plain handles, which each new term replaces.
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
  std::shared_ptr<const config::job_config> job;  ///< the job as it was loaded, with the largest degrees
  std::optional<term_members> members;            ///< processes of the current term; none: there is no term
  std::string secret;                             ///< secret of the term, if it spans machines
  std::shared_ptr<shared_term> shared;            ///< memory and wires of the term; null until its memory is taken
  std::unique_ptr<memory_saves> saves;            ///< files of saves in memory; null between terms
  /// object that receives results of parts of saves from other processes; shared with callbacks of the link
  std::shared_ptr<part_taker> parts;
  std::vector<uint64_t> peak_bytes;  ///< [rank]: peak bytes of activations, as the other processes have reported
  /// schedule of passes that an embedding program has set instead of the configuration's; none: not set
  std::optional<std::vector<told_schedule>> schedule;
  recovery_counts counts;

  [[nodiscard]] bool is_here(uint32_t rank) const { return !members || members->is_here(rank); }
  [[nodiscard]] bool leads() const { return members && members->leads(); }
};

}  // namespace troupe::actors
