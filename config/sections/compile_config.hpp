// The `compile` section: which passes change the step plan, from which step on. The passes are
// plan/choose/compile.hpp's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::config {

/// From a step on, until the next entry.
struct compile_entry {
  uint64_t step = 0;                ///< counted from 0: so many are done before
  std::vector<std::string> passes;  ///< empty: the plan is as the other keys have it
  std::string where;                ///< file and line
};

struct compile_section {  ///< `compile`
  bool enabled = false;   ///< deepcompile
  std::vector<std::string> passes;
  bool passes_given = false;            ///< otherwise all of them
  std::vector<compile_entry> schedule;  ///< steps ascend
  uint64_t memory_budget = 0;           ///< bytes of all that the ranks of a process need; 0: none
  uint64_t profile_steps = 5;           ///< that are measured before passes are chosen again
  bool offload_activation = false, offload_opt_states = false, offload_parameters = false;
  std::string where;  ///< file and line of what switches it on, or of passes

  /// All passes, each as far as it helps.
  [[nodiscard]] bool is_automatic() const { return enabled && schedule.empty() && !passes_given; }
  /// The schedule, or what stands for one: the passes at once, by modelled times, and again by measured ones. Without
  /// the names of DeepSpeed's passes that are in every plan. Empty where it is switched off.
  [[nodiscard]] std::vector<compile_entry> entries() const;
};

/// Whether it names what DeepSpeed's plan of a ZeRO stage or a parallelism is: ours always has it.
bool is_in_every_plan(const std::string& pass);

}  // namespace troupe::config
