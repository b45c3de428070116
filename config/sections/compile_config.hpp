// The `compile` section: which passes change the step plan, and from which step on. plan/choose/compile.hpp implements
// the choice of passes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::config {

/// A set of passes over the step plan that is used from training step `step` until the step of the next entry.
struct compile_entry {
  uint64_t step = 0;  ///< number of the first step, counted from 0, that uses these passes
  /// Names of the passes that are used; empty: none, so that the plan follows from the other keys alone.
  std::vector<std::string> passes;
  std::string where;  ///< file and line of the entry
};

struct compile_section {  ///< configuration section `compile`
  bool enabled = false;   ///< key: deepcompile; true: the passes of this section change the step plan
  std::vector<std::string> passes;
  bool passes_given = false;  ///< false: the key `passes` is not given, and all passes are used
  /// The key `schedule`: sets of passes in increasing order of their first steps; empty: not given.
  std::vector<compile_entry> schedule;
  uint64_t memory_budget = 0;  ///< limit in bytes of all memory that the ranks of a process need; 0: no budget
  bool offload_activation = false, offload_opt_states = false, offload_parameters = false;
  std::string where;  ///< file and line of the key that enables the section, or of passes

  /// True if all passes are used, each as far as it helps.
  [[nodiscard]] bool is_automatic() const { return enabled && schedule.empty() && !passes_given; }
  /// Returns the passes by steps: the key `schedule`, or, if it is not given, the passes from the first step on. Omits
  /// the names of DeepSpeed's passes that are in every plan. Empty if the section is disabled.
  [[nodiscard]] std::vector<compile_entry> entries() const;
};

/// True if `pass` names a feature of DeepSpeed's plan for a ZeRO stage or a parallelism, which Troupe's plans always
/// have.
bool is_in_every_plan(const std::string& pass);

}  // namespace troupe::config
