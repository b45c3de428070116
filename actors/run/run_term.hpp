// A term of a run: the plans of all ranks, and memory and actors of the ranks of this process, for as long as the
// degrees of the job stay the same. A change of degrees and a loss of processes replace a term as a whole;
// term_maker.hpp builds it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/company.hpp"
#include "actors/hands/device_room.hpp"
#include "actors/memory/ledger.hpp"
#include "actors/memory/offloaded_states.hpp"
#include "actors/memory/rank_memory.hpp"
#include "actors/memory/swap_files.hpp"
#include "actors/memory/whole_states.hpp"
#include "actors/run/weight_pruner.hpp"
#include "job/blueprint.hpp"

namespace troupe::actors {

/// The memory that holds the states of a term. Written when the term begins, and by offload_states and reload_states.
struct term_memory {
  swap_files swaps;
  /// [rank]: memory of each rank; for ranks of other processes only the shared pools
  std::vector<std::shared_ptr<rank_memory>> ranks;
  std::vector<std::shared_ptr<rank_memory>> here;  ///< memory of this process's ranks, which is part of `ranks`
  std::shared_ptr<const device_room> room;         ///< memory of the device that the run may use
  std::unique_ptr<allocation_ledger> ledger;       ///< counts the bytes of activations that ATen allocates
  std::unique_ptr<offloaded_states> offloaded;     ///< null: all states are where the plan has them
};

class run_term {
 public:
  /// Creates a term of `run` from `plan`, without memory and actors.
  run_term(training_run& run, job::blueprint plan);
  run_term(const run_term&) = delete;
  run_term& operator=(const run_term&) = delete;

  job::blueprint plan;
  term_memory memory;
  loader_setup loader;  ///< the batches of the data ranks, from the first sample of the term on
  weight_pruner pruner;
  std::vector<uint64_t> collectives;  ///< [communicator]: number of collectives in all runs of this term
  // Follows the members that the actors point to.
  std::shared_ptr<company> members;  ///< null: the actors are not started yet, or have ended

  /// Makes the ranks execute `plans` in runs of kind `which`.
  void use_programs(plan::plan_choice which, plan::rank_plans plans);
  /// Writes the plans of kind `which`, unless they exist already.
  core::result<void> want(plan::plan_choice which);
  /// Drops the programs of every kind of run; each is written at its next use.
  void drop_programs();
  /// Drops the programs of one kind.
  void drop_programs(plan::plan_choice which);
  /// Returns the program of a rank for this kind of run; null if it is not written yet.
  [[nodiscard]] const std::shared_ptr<const program>& program_of(plan::plan_choice which, uint32_t rank) const {
    return (*programs_[rank])[static_cast<size_t>(which)];
  }
  /// Returns the programs of a rank, which its actor reads at each run.
  [[nodiscard]] const std::shared_ptr<rank_programs>& programs(uint32_t rank) const { return programs_[rank]; }
  /// Returns the number of ranks that have programs: 0 before the memory is taken and after release().
  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(programs_.size()); }

  /// Returns the states by elements of whole parameters.
  [[nodiscard]] whole_states whole() const { return {memory.ranks, plan.tensor}; }
  /// Returns all ranks' plans that save; from then on the ranks here have staging memory.
  core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> saving_plans();
  /// Releases memory and programs, and keeps the plan. The actors must have ended.
  void release();

 private:
  std::vector<std::shared_ptr<rank_programs>> programs_;  // [rank]: programs of the rank's plans, by kind of plan
};

}  // namespace troupe::actors
