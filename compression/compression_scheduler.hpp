// DeepSpeed's `compression_scheduler`, to read: which techniques act on which modules after how many updates. A session
// needs none: what it computes with follows the updates applied. Owns the count; rules are
// job/compression/compression.hpp's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "job/compression/compression.hpp"
#include "kernels/compress/snip_momentum.hpp"

namespace troupe::compression {

struct scheduled_module {  ///< a module under one technique
  std::string technique, module, group;
  uint64_t schedule_offset = 0;  ///< updates before it begins
  bool enabled = false;          ///< it has begun, and never ends
  uint32_t bits = 0;             ///< of what is quantised, as they are now; 0: of what is pruned
  double dense_ratio = 1;        ///< the share of what is pruned that stays now
};

/// Not thread-safe; no actor, no tensors.
class compression_scheduler {
 public:
  /// Of the modules of `table` (a session's, or host_layers'). Refused: what choose_compression refuses.
  static core::result<compression_scheduler> make(const config::job_config& config, const core::model_table& table);

  /// An update was applied; those that were skipped are none.
  void step() { ++training_steps_; }
  /// Updates applied, also by a run that goes on elsewhere: actors::compression_state has a session's.
  void set_training_steps(uint64_t updates) { training_steps_ = updates; }
  [[nodiscard]] uint64_t training_steps() const { return training_steps_; }

  /// Of every module that is chosen, by technique in DeepSpeed's order.
  [[nodiscard]] std::vector<scheduled_module> state() const;
  /// Whether the technique ("weight_quantization", "row_pruning" ...) has begun on any module.
  [[nodiscard]] bool is_enabled(const std::string& technique) const;
  /// Updates at which something begins, ascending.
  [[nodiscard]] std::vector<uint64_t> phases() const { return chosen_.phases(); }

 private:
  compression_scheduler() = default;

  job::chosen_compression chosen_;
  std::map<size_t, kernels::prune_schedule> schedules_;  // of chosen_.pruned, where more goes step by step
  uint64_t training_steps_ = 0;
};

}  // namespace troupe::compression
