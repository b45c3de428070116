// Activations and their gradients between the stages of a pipeline: the slots that they cross in, and the sends and
// receives where neighbours lie on different ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/draft.hpp"

namespace troupe::plan {

class transfer_writer {  ///< follows the writer of a step from use to use
 public:
  transfer_writer(draft& d, const rank_plan& p);

  /// Use `i` of the schedule begins. The receive of the action behind the one that begins is written here, so that its
  /// bytes may come while that one computes.
  void begin(size_t i);
  /// `x`, the forward, recomputation or backward of a segment or the weight part of that, has been written: it names
  /// its slots, and the send of its result follows it. `exchanged`: what completes that result in a slot
  /// (exchanges.hpp), which is sent instead; none: nothing does. Whether the result leaves its stage.
  bool computed(handle x, handle exchanged = none);

 private:
  /// Of what crosses a boundary: the later stage, the micro-batch, the direction.
  using crossing = std::tuple<uint32_t, uint32_t, use>;
  struct slot {
    uint32_t buffer = none;
    handle filled = none;
  };

  [[nodiscard]] bool is_here(uint32_t stage) const;
  [[nodiscard]] uint64_t bytes_of(const crossing& c) const { return l_.transfer_bytes(std::get<0>(c), std::get<2>(c)); }
  void await_neighbours();
  void receive(const unit_use& u);
  void receive_next(uint32_t later, use way);
  void send(handle x, const crossing& c, handle exchanged);
  slot& take(handle x, const crossing& c);
  void read_last(uint32_t buffer, handle x);
  bool forward(handle x, uint32_t stage, uint32_t micro, handle exchanged);
  /// `x` is the first in a stage's backward, which reads the gradient that crosses into it.
  [[nodiscard]] bool reads_gradient(handle x, uint32_t stage) const;
  bool backward(handle x, uint32_t stage, uint32_t micro, handle exchanged);
  void weigh(handle x, uint32_t stage, uint32_t micro);

  draft& d_;
  const rank_plan& p_;
  const job_layout& l_;
  std::vector<size_t> actions_;         // first uses of actions, in order
  size_t next_action_ = 0, asked_ = 0;  // the action that begins next; actions below are received for
  /// [later stage, direction]: micro-batches that a neighbour has yet to send, in its order
  std::map<std::pair<uint32_t, use>, std::deque<uint32_t>> to_come_;
  std::map<crossing, slot> slots_;
  std::map<crossing, uint32_t> sent_;  // buffers of activations on their way
  std::vector<uint32_t> read_;         // buffers that nobody reads any more since the computation before
};

}  // namespace troupe::plan
