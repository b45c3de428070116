// Compares the step counters in a DeepSpeed checkpoint's files: of the optimizer, which every shard and every parameter
// of a universal folder repeats, and of the model files. Files of different saves differ in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/source/tensor_source.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

/// Returns the number of updates in `step` of a state of the optimizer. Returns nothing if the state has none, as with
/// SGD and Lion, or what step_in() returns.
core::result<std::optional<uint64_t>> step_of_state(const torch_archive& file, pickle_ref state);

/// Returns the number of updates that `value` states: an integer, a real, or a tensor of one number. Returns nothing
/// for a value of another form, and for types such as bf16 that cannot represent every number. Refused: a number that
/// is not a count.
core::result<std::optional<uint64_t>> step_in(const torch_archive& file, pickle_ref value);

/// Comparison of the weights in model files with the optimizer's masters, which an engine keeps equal: a weight is its
/// master, rounded. A folder without such weights (stage 3, layers of a pipeline) has nothing to compare.
struct weight_comparison {
  bool has_weights = false;  ///< true: at least one weight was compared
  std::string differing;     ///< name of the first weight that is not its master, rounded; empty: all are
};

/// The optimizer's counters of one checkpoint, which must all be equal: DeepSpeed updates all parameters together.
class optimizer_steps {
 public:
  /// Adds the counter in the file `where`. Refused: another number than the first one added.
  core::result<void> add(const std::string& where, uint64_t steps);

  [[nodiscard]] bool has_counter() const { return steps_.has_value(); }
  /// True if the optimizer counts other updates than the model file, which `run` describes.
  [[nodiscard]] bool differs_from(const source_run& run) const;

  /// Refuses a model file of another save than the optimizer's: the counters differ, and a weight in the model file is
  /// not its master, rounded. If no weights can be compared, only an optimizer that counts one update more is accepted,
  /// unless the folder's name, DeepSpeed's default tag, states another step than `run`, which the file `model` gave.
  [[nodiscard]] core::result<void> check_model(const std::filesystem::path& model, const source_run& run,
                                               const weight_comparison& weights) const;

  /// Sets `run.applied_updates` to the optimizer's own count, if there is one. Returns a remark if the counters of the
  /// model file, which `run` has, differ from it; a schedule without a position of its own then keeps those. Some
  /// engines create the states by an update without gradients, so that the optimizer counts one more.
  [[nodiscard]] std::optional<std::string> settle(source_run& run) const;

 private:
  std::optional<uint64_t> steps_;
  std::string first_;  ///< file of the first counter
};

/// Compares `global_steps` of a further model file with `run`, which another model file gave. Refused: another number.
core::result<void> check_steps_of_model(const torch_archive& file, const source_run& run);

}  // namespace troupe::checkpoint
