// Simulates a job of several processes on one machine: one supervisor, its launcher, processes that start and end,
// links, a virtual clock, and faults chosen by a seed. Owns time and faults; the decisions are production code.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/supervision.hpp"
#include "tests/sim/job_result.hpp"
#include "tests/sim/simulated_process.hpp"

namespace troupe::actors {

/// A fault of a process or of its link.
enum class trouble_kind : uint8_t {
  killed,   ///< the process is killed; messages that it has sent still arrive
  stopped,  ///< a signal stops the process; another one continues it later
  supervisor_stopped,
  partition,       ///< no message passes in either direction for some time
  partition_down,  ///< the process receives nothing for some time
  partition_up,    ///< the supervisor receives nothing from the process for some time
  link_cut,        ///< the link closes; messages that have not arrived are lost
  link_garbled,    ///< the supervisor receives bytes that are no valid message
  executor_error,  ///< an instruction fails with an error
};
inline constexpr size_t num_trouble_kinds = 9;
std::string_view name_of(trouble_kind kind);

struct trouble {
  trouble_kind kind = trouble_kind::killed;
  uint32_t place = 0;
  uint64_t after_messages = 0;  ///< the fault strikes when all links together have delivered this number of messages
  int64_t duration_ns = 0;
  [[nodiscard]] std::string describe() const;
};

struct processes_scenario {
  uint64_t seed = 0;
  uint32_t processes = 2, spares = 0, ranks_each = 1, stage = 0;
  uint64_t steps = 10;
  std::vector<trouble> all;
  planted defect = planted::nothing;
};
processes_scenario processes_scenario_of(uint64_t seed);

/// Simulates the job until it and its processes have ended, or until an invariant is broken.
job_result play_processes(const processes_scenario& s);

}  // namespace troupe::actors
