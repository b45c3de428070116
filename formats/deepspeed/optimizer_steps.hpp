// Compares the step counters in a DeepSpeed checkpoint's files: the optimizer's, which every shard and every parameter
// of a universal folder repeats, and those of the model files. Different counters show that files of several saves were
// mixed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "formats/source/tensor_source.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

/// Returns the number of updates under the key `step` of an optimizer's state, as step_in() reads it; nothing if the
/// state has no such key, as with SGD and Lion.
core::result<std::optional<uint64_t>> step_of_state(const torch_archive& file, pickle_ref state);

/// Returns the number of updates that `value` states: an integer, a real, or a tensor of one number. Returns nothing
/// for a value of another form, and for types such as bf16 that cannot represent every number. Refused: a number that
/// is not a count.
core::result<std::optional<uint64_t>> step_in(const torch_archive& file, pickle_ref value);

/// Comparison of the weights in model files with the optimizer's fp32 masters. In files of one save each weight equals
/// its master, rounded to the weight's type. A folder without weights (stage 3, layers of a pipeline) has nothing to
/// compare.
struct weight_comparison {
  bool has_weights = false;  ///< true: at least one weight was compared
  std::string differing;     ///< name of the first weight that differs from its rounded master; empty: none does
};

/// The optimizer's counters of one checkpoint, which must all be equal: DeepSpeed updates all parameters together.
class optimizer_steps {
 public:
  /// Adds the counter in the file `where`. Refused: another number than the first one added.
  core::result<void> add(const std::string& where, uint64_t steps);

  [[nodiscard]] bool has_counter() const { return steps_.has_value(); }
  /// True if the optimizer has counted another number of updates than the model file from which `run` was read.
  [[nodiscard]] bool differs_from(const source_run& run) const;

  /// Refuses `model`, the file from which `run` was read, if it belongs to another save than the optimizer's states:
  /// its counter differs from the optimizer's, and some weight differs from its rounded master. If there are no weights
  /// to compare, differing counters are accepted only if the optimizer counts one update more and the folder's name,
  /// unless it is not DeepSpeed's default tag, states the step of `run`.
  [[nodiscard]] core::result<void> check_model(const std::filesystem::path& model, const source_run& run,
                                               const weight_comparison& weights) const;

  /// Sets `run.applied_updates` to the number of updates that the optimizer counted; does nothing if it counts none. If
  /// `run` has another number from the model file, returns a remark, and that number becomes the position of the
  /// schedule if the file states none. The numbers may differ by one without damage, because some engines create the
  /// optimizer's states by an update without gradients.
  [[nodiscard]] std::optional<std::string> settle(source_run& run) const;

 private:
  std::optional<uint64_t> steps_;
  std::string first_;  ///< name of the file whose counter was added first, for errors
};

/// Refuses a model file whose `global_steps` differ from those in `run`, which was read from another model file.
core::result<void> check_steps_of_model(const torch_archive& file, const source_run& run);

}  // namespace troupe::formats
