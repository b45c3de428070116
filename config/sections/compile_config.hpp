// The `compile` section: which passes change the step plan, and from which step on. plan/choose/compile.hpp implements
// the choice of passes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::config {

/// Passes that are used from training step `step` until the step of the next entry.
struct compile_entry {
  uint64_t step = 0;                ///< first step with these passes, counted from 0
  std::vector<std::string> passes;  ///< names of passes; empty: the plan follows from the other keys alone
  std::string where;                ///< file and line of the entry
};

struct compile_section {  ///< configuration section `compile`
  bool enabled = false;   ///< key: deepcompile
  std::vector<std::string> passes;
  bool passes_given = false;            ///< false: all passes are used
  std::vector<compile_entry> schedule;  ///< entries in increasing order of steps
  uint64_t memory_budget = 0;           ///< limit in bytes of all memory that the ranks of a process need; 0: no budget
  uint64_t profile_steps = 5;           ///< number of steps that are measured before passes are chosen again
  bool offload_activation = false, offload_opt_states = false, offload_parameters = false;
  std::string where;  ///< file and line of the key that enables the section, or of passes

  /// True if all passes are used, each as far as it helps.
  [[nodiscard]] bool is_automatic() const { return enabled && schedule.empty() && !passes_given; }
  /// Returns the schedule. Without a schedule: the passes from the first step on, chosen by modelled times, and again
  /// later, chosen by measured times.
  /// Omits the names of DeepSpeed's passes that are in every plan. Empty if the section is disabled.
  [[nodiscard]] std::vector<compile_entry> entries() const;
};

/// True if `pass` names a feature of DeepSpeed's plan for a ZeRO stage or a parallelism, which Troupe's plans always
/// have.
bool is_in_every_plan(const std::string& pass);

}  // namespace troupe::config
