#include "plan/schedule/order.hpp"

namespace troupe::plan {

std::vector<action> breadth_first_order(const pipeline_shape& s, uint32_t rank) {
  order_writer out(s.micro_batches);
  const auto all = [&](action_type type, uint32_t chunk) {
    const uint32_t stage = stage_of(stage_placement::round_robin, s.ranks, rank, chunk);
    for (uint32_t i = 0; i < s.micro_batches; ++i) out.add(type, stage, i);
  };
  for (uint32_t c = 0; c < s.chunks; ++c) all(action_type::forward, c);
  for (uint32_t c = s.chunks; c-- > 0;) all(action_type::backward, c);
  return out.done();
}

}  // namespace troupe::plan
