// Owns the record of a simulated run as plain values: which instruction ran when on which lane, and which memory was in
// use when. Questions about it are in run.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/sim/sim.hpp"
#include "core/error.hpp"
#include "plan/instruction.hpp"
#include "plan/plan_choice.hpp"

namespace troupe::sim {

/// An instruction that has started, on the virtual clock.
struct span {
  uint64_t step = 1;  ///< number of the step, from 1
  uint32_t rank = 0;
  plan::lane lane = plan::lane::compute;
  uint32_t name = 0;      ///< index in history::names
  int64_t start_ns = 0;   ///< time of the start; a collective starts when its rank posts it
  int64_t moving_ns = 0;  ///< time from which the lane works: a collective moves bytes once all members have posted it,
                          ///< and its communicator has ended the one before
  int64_t end_ns = 0;     ///< time of the end; history::never if the instruction did not end
  uint32_t id = 0;        ///< number of the instruction in the plan of its rank in this step
};

/// Bytes that a rank holds for an owner for some time.
struct holding {
  uint32_t owner = 0;  ///< index in history::owners
  uint32_t rank = 0;
  uint64_t bytes = 0;
  int64_t from_ns = 0, to_ns = 0;
};

/// A step (or another run of a plan), from its order to its result.
struct step_record {
  plan::plan_choice which = plan::plan_choice::train;
  int64_t began_ns = 0, ended_ns = 0;
  std::shared_ptr<const core::error> failure;  ///< error that ended the run; null if the step ended well
};

/// A fault of the world, and when it happened.
struct strike {
  std::string fault;
  bool happened = false;
  /// Virtual time at which it happened first; if it lasts for the whole run, the begin of the run; -1: did not happen.
  int64_t at_ns = -1;
};

/// Everything that is known about a simulated run.
struct history {
  static constexpr int64_t never = -1;

  uint64_t seed = 0;
  std::string replay;  ///< command that replays the run; empty: the program does not draw its seeds
  uint32_t ranks = 1;
  /// [rank]: the rank whose spans and memory are its own, too; empty: each rank has its own (world_options::fold).
  std::vector<uint32_t> acted_by;
  std::vector<std::string> names;  ///< names of all instructions of the plans, also of those that did not run
  std::vector<span> spans;         ///< by their start
  std::vector<step_record> steps;
  std::vector<std::string> owners;  ///< owners of memory, as `troupe plan` prints them
  std::vector<holding> memory;
  std::vector<strike> faults;
  std::vector<std::string> warnings;  ///< reports of ranks that waited for a disk or the loader

  /// Returns the rank whose spans and memory are those of `rank`.
  [[nodiscard]] uint32_t actor_of(uint32_t rank) const { return acted_by.empty() ? rank : acted_by[rank]; }
  /// Returns the number of ranks whose spans and memory are those of `rank`.
  [[nodiscard]] int64_t ranks_like(uint32_t rank) const {
    return acted_by.empty() ? 1 : std::ranges::count(acted_by, rank);
  }
};

/// Makes the record of a simulation of these plans (by plan_choice). Memory in slots is held from the start of a slot's
/// first instruction to the end of its last one, activations from forward to backward as plan/keeping.hpp counts them,
/// all other memory throughout. `acted_by`: actors::sim_options::acted_by of the simulation.
history record(const std::vector<actors::shared_rank_plans>& plans, const actors::sim_result& result, uint64_t seed,
               const std::vector<uint32_t>& acted_by = {});

}  // namespace troupe::sim
