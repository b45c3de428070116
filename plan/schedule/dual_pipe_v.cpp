#include <algorithm>
#include <deque>

#include "plan/schedule/order.hpp"

namespace troupe::plan {

namespace {

// The actions of a rank on its two chunks that are written so far. Weight parts of split backwards of both chunks wait
// in one queue until the schedule places them.
class dual_rank {
 public:
  dual_rank(const pipeline_shape& s, uint32_t rank) : out_(s.micro_batches) {
    for (uint32_t c = 0; c < 2; ++c) stage_[c] = stage_of(stage_placement::folded, s.ranks, rank, c);
  }
  void forward(uint32_t c) { out_.add(action_type::forward, stage_[c], forwards_[c]++); }
  void backward(uint32_t c, bool split) {
    out_.add(split ? action_type::backward_input : action_type::backward, stage_[c], backwards_[c]);
    if (split) waiting_.push_back({action_type::backward_weight, stage_[c], backwards_[c]});
    ++backwards_[c];
  }
  void pair(uint32_t forward_chunk, uint32_t backward_chunk) {
    out_.add_overlap(stage_[forward_chunk], forwards_[forward_chunk]++, stage_[backward_chunk],
                     backwards_[backward_chunk]++);
  }
  void weight() {
    if (waiting_.empty()) return;
    out_.add(waiting_.front().type, waiting_.front().stage, waiting_.front().micro);
    waiting_.pop_front();
  }
  std::vector<action> done() { return out_.done(); }

 private:
  order_writer out_;
  uint32_t stage_[2] = {}, forwards_[2] = {}, backwards_[2] = {};
  std::deque<action> waiting_;
};

// Writes the first four steps of the schedule: forwards alone, both chunks alternating, the first backwards, and the
// pairs of the steady state.
void fill(dual_rank& r, const pipeline_shape& s, uint32_t rank, uint32_t micro_batches) {
  const uint32_t beyond = s.ranks - 1 - rank;
  for (uint32_t i = 0; i < 2 * beyond; ++i) r.forward(0);
  for (uint32_t i = 0; i < rank + 1; ++i) {
    r.forward(0);
    r.forward(1);
  }
  for (uint32_t i = 0; i < beyond; ++i) {
    r.backward(1, true);
    r.weight();
    r.forward(1);
  }
  for (uint32_t i = 0; i < micro_batches - 2 * s.ranks + rank + 1; ++i) {
    if (i == 0 && beyond == 0) {
      r.forward(0);  // not overlapped, as in the published schedule: other ranks wait for the backward
      r.backward(1, false);
    } else {
      r.pair(0, 1);
    }
    r.pair(1, 0);
  }
}

// Writes the last four steps of the schedule: the remaining pairs, backwards of both chunks alternating, the second
// half of them split, and the weight parts.
void drain(dual_rank& r, const pipeline_shape& s, uint32_t rank) {
  const uint32_t beyond = s.ranks - 1 - rank, turns = rank + 1;
  for (uint32_t i = 0; i < beyond; ++i) {
    r.backward(1, false);
    r.pair(1, 0);
  }
  bool split = false;
  for (uint32_t i = 0; i < turns; ++i) {
    split = split || (i == turns / 2 && rank % 2 == 1);
    r.backward(1, split);
    split = split || (i == turns / 2 && rank % 2 == 0);
    r.backward(0, split);
  }
  for (uint32_t i = 0; i < beyond; ++i) {
    r.weight();
    r.backward(0, split);
  }
  for (uint32_t i = 0; i < turns; ++i) r.weight();
}

}  // namespace

std::vector<action> dual_pipe_v_order(const pipeline_shape& s, uint32_t rank) {
  dual_rank r(s, rank);
  fill(r, s, rank, std::max(2 * s.ranks, s.micro_batches));
  drain(r, s, rank);
  return r.done();
}

}  // namespace troupe::plan
