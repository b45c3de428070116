// The update rule of an embedding program's own: an optimizer over flat shards of fp32 values, which runs where the
// shards are, on the threads that hold them. Owns the interface and the rules for the names of states; the kernels call
// it piece by piece, and plans, checkpoints and swap files treat its states as they treat the moments of Troupe's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/error.hpp"

namespace troupe::core {

/// Largest number of state buffers that a rule keeps, and of elements in one call of a rule.
inline constexpr size_t shard_states_max = 2, shard_span_max = 4096;

/// The numbers of one update, equal for all elements of an optimizer group.
struct shard_step {
  uint64_t update = 1;  ///< number of this update, counted from 1; skipped steps do not count
  double learning_rate = 0, weight_decay = 0;
};

/// Consecutive elements of one parameter, in fp32. A parameter that several ranks share, or that is long, comes in
/// several calls, whose order is not defined.
struct shard_span {
  uint32_t parameter = 0;  ///< number of the parameter in session::table
  /// Number of the first element in the parameter; in a job with tensor ranks, in the part that the rank's tensor
  /// coordinate has.
  uint64_t first = 0;
  std::span<float> weights;         ///< the master weights, which the rule changes
  std::span<const float> gradient;  ///< the mean gradient over the global batch, clipped
  /// The rule's states in the order of their names, zeros before the first update; unused ones are empty.
  std::array<std::span<float>, shard_states_max> states{};
};

/// An optimizer that updates each element by itself: its new weight and states are functions of the element's own
/// weight, gradient, states and place, and of the step's numbers. Only such a rule gives the same bits at every ZeRO
/// stage. Ranks and threads call a rule at the same time, and a step that is clipped may call it twice for the same
/// update, with the states restored between the calls: a rule keeps nothing itself. An exception ends the run.
class shard_optimizer {
 public:
  shard_optimizer() = default;
  shard_optimizer(const shard_optimizer&) = delete;
  shard_optimizer& operator=(const shard_optimizer&) = delete;
  virtual ~shard_optimizer() = default;

  /// Returns the names of the rule's states, at most shard_states_max, as checkpoints spell them; the texts must live
  /// as long as the rule, and never change.
  [[nodiscard]] virtual std::span<const std::string_view> state_names() const = 0;
  /// Updates the weights and states of the elements.
  virtual void update(const shard_step& step, const shard_span& elements) const = 0;
};

/// Checks the names of a rule's states. Errors (bad_input): too many names, a name that is used twice, that is not 1 to
/// 64 lower-case letters, digits and underscores, or that has another meaning in checkpoints: `ema`, `step` and `fp32`.
result<void> check_states(const shard_optimizer& rule);

}  // namespace troupe::core
