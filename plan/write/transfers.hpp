// Owns the activations and their gradients between the stages of a pipeline: the slots that they are transferred in,
// and the sends and receives if neighbouring stages are on different ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/draft.hpp"
#include "plan/stages.hpp"

namespace troupe::plan {

/// Adds sends and receives between pipeline stages to a draft; the writer of a step calls its functions for each use.
class transfer_writer {
 public:
  transfer_writer(draft& d, const rank_plan& p);

  /// Begins use `i` of the schedule. If it is the first use of an action of the pipeline table, adds the receive that
  /// the next action needs, so that the bytes may arrive while the current action computes.
  void begin(size_t i);
  /// Adds the slots and the send of `x`, which has been written: the forward, recompute, backward or weight part of a
  /// segment. `exchanged` is the instruction that completes the result in a slot (exchanges.hpp), and the send waits
  /// for it; none: `x` itself completes the result. Returns true if the result leaves its stage.
  bool computed(handle x, handle exchanged = none);

 private:
  /// Key of data that cross a boundary between stages: the later stage, the micro-batch, the direction.
  using crossing = std::tuple<uint32_t, uint32_t, use>;
  struct slot {
    uint32_t buffer = none;
    handle filled = none;
  };

  [[nodiscard]] bool is_here(uint32_t stage) const;
  [[nodiscard]] uint64_t bytes_of(const crossing& c) const {
    return transfer_bytes(l_, std::get<0>(c), std::get<2>(c));
  }
  void await_neighbours();
  void note_returns();
  void receive(const unit_use& u);
  void receive_next(uint32_t later, use way);
  void send(handle x, const crossing& c, handle exchanged);
  slot& take(handle x, const crossing& c);
  void read_last(uint32_t buffer, handle x);
  bool forward(handle x, uint32_t stage, uint32_t micro, handle exchanged);
  /// True if `x` is the first segment in a stage's backward, which reads the gradient that enters the stage.
  [[nodiscard]] bool reads_gradient(handle x, uint32_t stage) const;
  bool backward(handle x, uint32_t stage, uint32_t micro, handle exchanged);
  void weight_part(handle x, uint32_t stage, uint32_t micro);

  draft& d_;
  const rank_plan& p_;
  const job_layout& l_;
  std::vector<size_t> actions_;  // index of the first use of each action, in order
  // `next_action_`: the action that begins next. `asked_`: receives of all actions below this one have been added.
  size_t next_action_ = 0, asked_ = 0;
  /// [later stage, direction]: micro-batches that a neighbour has yet to send, in the order of its sends
  std::map<std::pair<uint32_t, use>, std::deque<uint32_t>> to_come_;
  /// [forward, if no gradient crosses its boundary]: micro-batches whose gradients would arrive before the forward, but
  /// after the one before it
  std::map<crossing, std::vector<uint32_t>> returned_before_;
  std::map<crossing, slot> slots_;
  std::map<crossing, uint32_t> sent_;  // index of the buffer whose activations were sent to the next stage
  std::vector<uint32_t> read_;         // indices of the buffers whose last reader was the previous computation
};

}  // namespace troupe::plan
