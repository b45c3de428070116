// A job of several processes in one world: one supervision, its launcher, processes that come and go, links, a virtual
// clock, and whatever a seed lets happen to them. Owns time and trouble; the decisions are production's.
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

/// What happens to a process or its link.
enum class trouble_kind : uint8_t {
  killed,   ///< its last words are still heard
  stopped,  ///< and continued
  supervisor_stopped,
  partition,       ///< nothing is heard either way, for a while
  partition_down,  ///< the process hears nothing
  partition_up,    ///< it is not heard
  link_cut,        ///< with what was under way
  link_garbled,    ///< bytes come that are no message
  executor_error,  ///< an instruction fails
};
inline constexpr size_t num_trouble_kinds = 9;
std::string_view name_of(trouble_kind kind);

struct trouble {
  trouble_kind kind = trouble_kind::killed;
  uint32_t place = 0;
  uint64_t after_messages = 0;  ///< that links have brought
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

/// Plays the job until it is over, its processes have ended, or an invariant is broken.
job_result play_processes(const processes_scenario& s);

}  // namespace troupe::actors
