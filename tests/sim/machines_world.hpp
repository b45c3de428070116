// A job on several machines in one world: the first with the supervision and processes of its own, the others with an
// agent and processes behind it, connections between them, a virtual clock, and whatever a seed lets happen to them.
// Owns time and trouble; the decisions are production's (cluster/supervision.hpp, agent_links.hpp, agent_state.hpp,
// process_state.hpp), and so are the frames.
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

/// What happens to a machine, or to a process of it.
enum class machine_trouble : uint8_t {
  partition,        ///< nothing passes either way, for a while
  partition_down,   ///< it hears nothing
  partition_up,     ///< it is not heard
  agent_killed,     ///< its processes find their links ended; an agent comes back
  agent_stopped,    ///< and continued
  machine_lost,     ///< with all that it has and no word; it comes back
  control_cut,      ///< the connection of its agent ends
  data_cut,         ///< connections of its processes with those of another machine end
  process_killed,   ///< its last words are still heard
  process_stopped,  ///< and continued
  supervisor_stopped,
  executor_error,  ///< an instruction fails
  comes_unfit,     ///< lost, and what comes back cannot take part
};
inline constexpr size_t num_machine_troubles = 13;
std::string_view name_of(machine_trouble kind);

struct machine_event {
  machine_trouble kind = machine_trouble::partition;
  uint32_t machine = 1, place = 0;
  uint64_t after_messages = 0;
  int64_t duration_ns = 0;
  [[nodiscard]] std::string describe() const;
};

/// `cluster.lost_after` of these jobs: a twentieth of a real one's, as all their times.
inline constexpr int64_t machines_lost_after_ns = 250'000'000;

struct machines_scenario {
  uint64_t seed = 0;
  std::vector<uint32_t> machines{0, 1, 2};  ///< [place]
  uint32_t ranks_each = 1, stage = 0;
  uint32_t divides = 0;  ///< data ranks divide this; 0: there may be any number
  uint64_t steps = 10;
  std::vector<machine_event> all;
  planted defect = planted::nothing;
};
machines_scenario machines_scenario_of(uint64_t seed);
/// Only one partition, shorter than what makes a process give its ranks up.
machines_scenario short_cuts_of(uint64_t seed);

/// Four machines of one rank; one of them is lost, and no three may train: two or three are left, of which two have
/// ranks.
machines_scenario one_lost_of_four(uint64_t seed);

/// Plays the job until it is over on all machines, or an invariant is broken.
job_result play_machines(const machines_scenario& s);

}  // namespace troupe::actors
