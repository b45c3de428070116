// The loop of a host program: keeps its forward passes of the open step, adds up what its backwards ask for, and makes
// the batches of one training step of them. The weights do not change within a step; therefore a forward pass is an
// evaluation that keeps probabilities, and a backward only notes the weight of each token, by which the losses of the
// training step are multiplied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/run/token_batch.hpp"
#include "core/error.hpp"

namespace troupe::data {
struct batch;
}

namespace troupe::actors {

struct training_run;

/// Largest number of samples of a batch, and of forward passes that a step keeps.
inline constexpr uint64_t own_rows_max = uint64_t{1} << 20;
inline constexpr size_t own_passes_max = 4096;
/// Largest number of bytes of a host program's batches that the leading process sends to the others in one message.
inline constexpr uint64_t told_batch_bytes_max = uint64_t{128} << 20;

/// The batches of a training step that follows from the noted backwards.
struct own_step {
  std::vector<std::shared_ptr<const data::batch>> given;  ///< batches, as run_wish::given has them
  uint32_t micros = 0;                                    ///< number of micro-batches
  uint64_t samples = 0;                                   ///< number of samples of the host program
  uint64_t counted = 0;                                   ///< number of their tokens with a weight that is not 0
};

class own_loop {
 public:
  explicit own_loop(training_run& run) : run_(run) {}
  own_loop(const own_loop&) = delete;
  own_loop& operator=(const own_loop&) = delete;

  /// Implements session::forward.
  core::result<forward_pass> forward(const token_batch& batch);
  /// Implement session::backward.
  core::result<void> backward(uint64_t number, double factor);
  core::result<void> backward(uint64_t number, std::span<const float> gradients);
  /// Drops the forward passes and backwards of the open step.
  void forget() { passes_.clear(); }

  /// True if the next training step follows from backwards, and not from the run's own data.
  [[nodiscard]] bool has_backwards() const;
  /// Returns the batches of the next training step, cut for the ranks of the present term. The gradient of the step is
  /// the sum over all tokens of weight x gradient of the token's loss, and its loss the sum of weight x loss. Errors:
  /// bad_input, limit, for a number of micro-batches that the job does not permit.
  [[nodiscard]] core::result<own_step> next_step() const;

  /// Records that step number `step`, counted from 1, has trained on batches of the host program, so that it cannot be
  /// repeated after a loss of processes.
  void note_step(uint64_t step) { last_step_ = step; }
  /// Records that the run continues after `steps` steps and repeats none, because it has loaded a checkpoint or has
  /// begun to lead: later steps are new ones.
  void go_back(uint64_t steps) { last_step_ = std::min(last_step_, steps); }
  /// Returns the number of the last step on batches of the host program; 0: there was none.
  [[nodiscard]] uint64_t last_step() const { return last_step_; }

 private:
  struct kept_pass {
    uint64_t number = 0;
    token_batch batch;
    std::vector<double> weights;  // [row x sequence]: weight of the token's loss; empty: no backward yet
  };
  /// Returns an error if the run cannot train on a host program's batches.
  [[nodiscard]] core::result<void> check_run() const;
  [[nodiscard]] core::result<void> check(const token_batch& batch) const;
  [[nodiscard]] core::result<kept_pass*> find(uint64_t number);
  /// Returns the logarithms of the probabilities of all tokens of `batch`. Fails if processes are lost meanwhile.
  [[nodiscard]] core::result<std::vector<float>> walk(const token_batch& batch) const;

  training_run& run_;
  std::vector<kept_pass> passes_;  // forward passes of the open step, by ascending number
  uint64_t last_number_ = 0;
  uint64_t last_step_ = 0;
};

}  // namespace troupe::actors
