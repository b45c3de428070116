// Compares the step counters in a DeepSpeed checkpoint's files: of the optimizer, which every shard and every parameter
// of a universal folder repeats, and of the model files. Files of different saves differ in them.
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
  /// True if the optimizer counts another number of updates than the model file, from which `run` was read.
  [[nodiscard]] bool differs_from(const source_run& run) const;

  /// Refuses a model file of another save than the optimizer's: the counters differ, and a weight in the model file is
  /// not its master, rounded. If no weights can be compared, only an optimizer that counts one update more is accepted,
  /// unless the folder's name, DeepSpeed's default tag, states another step than `run`, which the file `model` gave.
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

/// Compares `global_steps` of a further model file with `run`, which another model file gave. Refused: another number.
core::result<void> check_steps_of_model(const torch_archive& file, const source_run& run);

}  // namespace troupe::formats
