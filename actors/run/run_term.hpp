// Owns a term of a run: the plans of all ranks, and memory and actors of the ranks of this process, as long as the
// processes and the parallel degrees of the job stay the same. A change of degrees and a loss of processes replace the
// whole term; term_maker.hpp builds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
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
#include "job/changed_steps.hpp"

namespace troupe::actors {

/// The memory of a term's ranks. Written when the term begins, and by offload_states and reload_states.
struct term_memory {
  swap_files swaps;
  /// [rank]: memory of each rank; of ranks in other processes only the pools in shared memory
  std::vector<std::shared_ptr<rank_memory>> ranks;
  std::vector<std::shared_ptr<rank_memory>> here;  ///< memory of this process's ranks, which is part of `ranks`
  std::shared_ptr<const device_room> room;         ///< division of the device's memory between pools and Torch
  std::unique_ptr<allocation_ledger> ledger;       ///< counts the bytes of activations that ATen allocates
  std::unique_ptr<offloaded_states> offloaded;     ///< states that were moved out of memory; null: none
};

class run_term {
 public:
  /// Creates a term of `run` from `plan`, without memory and actors.
  run_term(training_run& run, job::blueprint plan);
  run_term(const run_term&) = delete;
  run_term& operator=(const run_term&) = delete;

  job::blueprint plan;
  term_memory memory;
  loader_setup loader;  ///< settings of the loader: which micro-batches ranks get, from the term's first sample on
  weight_pruner pruner;
  /// [number of micro-batches, updates before the vote]: plans of training steps that the term has used or replaced; at
  /// most kept_counts_max.
  std::map<std::pair<uint32_t, bool>, job::changed_steps> steps_of_count;
  static constexpr size_t kept_counts_max = 16;
  std::vector<uint64_t> collectives;  ///< [communicator]: number of its collectives since the term began
  // Declared after the members that the actors use, so that it is destroyed before them.
  std::shared_ptr<company> members;  ///< the term's actors; null: not started yet, or ended

  /// Makes `plans`, one for each rank, the programs that ranks execute in runs of kind `which`.
  void use_programs(plan::plan_choice which, plan::rank_plans plans);
  /// Makes the plans of kind `which` for all ranks, unless they exist already.
  core::result<void> want(plan::plan_choice which);
  /// Drops the programs of every kind of run; want() makes them anew at the next use.
  void drop_programs();
  /// Drops the programs of kind `which`; want() makes them anew at the next use.
  void drop_programs(plan::plan_choice which);
  /// Returns the program that a rank executes in runs of this kind; null if it is not made yet.
  [[nodiscard]] const std::shared_ptr<const program>& program_of(plan::plan_choice which, uint32_t rank) const {
    return (*programs_[rank])[static_cast<size_t>(which)];
  }
  /// Returns the programs of a rank for all kinds of runs; its actor reads them at each run.
  [[nodiscard]] const std::shared_ptr<rank_programs>& programs(uint32_t rank) const { return programs_[rank]; }
  /// Returns the number of ranks that have programs: 0 before the memory is taken and after release().
  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(programs_.size()); }

  /// Returns an object that accesses states by elements of undivided parameters, of which a rank may hold only a part.
  [[nodiscard]] whole_states whole() const { return {memory.ranks, plan.tensor}; }
  /// Returns, by rank, the plan that writes a checkpoint and does not train. Allocates the staging memory that the
  /// ranks of this process need for it.
  core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> saving_plans();
  /// Releases the memory and the programs of the term (time with the same processes), and keeps its plan. The actors
  /// must have ended.
  void release();

 private:
  std::vector<std::shared_ptr<rank_programs>> programs_;  // [rank]: programs of the rank for all kinds of runs
};

}  // namespace troupe::actors
