// DeepSpeed's `compression_scheduler` as a read-only view: which techniques act on which modules after how many
// updates. A session does not need one, because it reads the same rules by its own number of applied updates. Owns the
// scheduler's count of updates; leaves the rules to job/compression/compression.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"

namespace troupe::config {
struct job_config;
}

namespace troupe::compression {

struct scheduled_module {  ///< state of one module under one compression technique
  std::string technique, module, group;
  uint64_t schedule_offset = 0;  ///< number of updates before the technique begins
  bool enabled = false;          ///< true if the technique has begun; a technique never ends
  uint32_t bits = 0;             ///< current bits of a quantised module; 0 for a pruned module
  double dense_ratio = 1;  ///< fraction of a pruned module's elements that are not masked after the counted updates
};

/// Counts updates for DeepSpeed's `compression_scheduler`. Not thread-safe; uses no actor and no tensors.
class compression_scheduler {
 public:
  /// Returns a scheduler for the modules of `table`, the model table of a session or of host_layers. Returns every
  /// error of job::choose_compression.
  static core::result<compression_scheduler> make(const config::job_config& config, const core::model_table& table);

  /// Counts one applied update; must not be called for a skipped update.
  void step() { ++training_steps_; }
  /// Sets the number of applied updates, e.g. to that of a resumed run; actors::compression_state contains the number
  /// of a session.
  void set_training_steps(uint64_t updates) { training_steps_ = updates; }
  [[nodiscard]] uint64_t training_steps() const { return training_steps_; }

  /// Returns the state of every module under each of its compression techniques, in DeepSpeed's order of techniques.
  [[nodiscard]] std::vector<scheduled_module> state() const;
  /// True if the technique ("weight_quantization", "row_pruning" ...) has begun on any module.
  [[nodiscard]] bool is_enabled(const std::string& technique) const;
  /// Returns the numbers of updates at which a technique begins on some module, ascending.
  [[nodiscard]] std::vector<uint64_t> phases() const;

 private:
  struct rules;
  explicit compression_scheduler(std::shared_ptr<const rules> r) : rules_(std::move(r)) {}

  std::shared_ptr<const rules> rules_;
  uint64_t training_steps_ = 0;
};

}  // namespace troupe::compression
