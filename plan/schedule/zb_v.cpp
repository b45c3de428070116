#include <algorithm>

#include "plan/schedule/order.hpp"

namespace troupe::plan {

namespace {

// The actions of a rank with two chunks (stages): appends them in order, and counts them by type.
class folded_rank {
 public:
  folded_rank(const pipeline_shape& s, uint32_t rank) : out_(s.micro_batches) {
    for (uint32_t c = 0; c < 2; ++c) stage_[c] = stage_of(stage_placement::folded, s.ranks, rank, c);
  }
  void forward(uint32_t c) { out_.add(action_type::forward, stage_[c], forwards[c]++); }
  void input(uint32_t c) { out_.add(action_type::backward_input, stage_[c], inputs[c]++); }
  void weight(uint32_t c) { out_.add(action_type::backward_weight, stage_[c], weights[c]++); }
  void backward(uint32_t c) {
    input(c);
    weight(c);
  }
  std::vector<action> done() { return out_.done(); }

  uint32_t forwards[2] = {}, inputs[2] = {}, weights[2] = {};

 private:
  order_writer out_;
  uint32_t stage_[2] = {};
};

}  // namespace

std::vector<action> zb_v_order(const pipeline_shape& s, uint32_t rank) {
  const uint32_t behind = s.ranks - rank;  // number of ranks from this one to the last, where the two chunks meet
  const uint32_t n = std::max(2 * s.ranks - 1, s.micro_batches);
  folded_rank r(s, rank);
  for (uint32_t i = 0; i < 2 * behind - 1; ++i) r.forward(0);
  for (uint32_t i = 0; i < rank; ++i) {
    r.forward(1);
    r.forward(0);
  }
  for (uint32_t i = 0; i < behind; ++i) {
    r.forward(1);
    r.backward(1);
  }
  while (r.forwards[1] < r.forwards[0] || r.forwards[0] < n) {
    if (r.forwards[0] < n) r.forward(0);
    r.backward(0);
    r.forward(1);
    r.backward(1);
  }
  for (uint32_t i = 0; i < rank; ++i) {
    r.input(0);
    r.input(1);
  }
  for (uint32_t i = 0; i < behind; ++i) {
    r.input(0);
    r.weight(0);
  }
  for (const uint32_t c : {1U, 0U})
    while (r.weights[c] < r.inputs[c]) r.weight(c);
  return r.done();
}

}  // namespace troupe::plan
