#include <algorithm>

#include "core/math.hpp"
#include "plan/schedule/order.hpp"

namespace troupe::plan {

namespace {

// Determines the stage and the micro-batch of the n-th forward and the n-th backward of a rank. A rank computes groups
// of micro-batches one after the other, and each group chunk after chunk.
class turns {
 public:
  turns(const pipeline_shape& s, uint32_t rank) : shape_(s), rank_(rank) {
    const uint32_t rounds = std::max(1U, s.micro_batches / s.ranks);
    group_ =
        s.group > 0 ? std::min(s.group, s.micro_batches) : static_cast<uint32_t>(core::div_up(s.micro_batches, rounds));
    count_ = core::round_up(s.micro_batches, group_) * s.chunks;
  }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] uint32_t group() const { return group_; }
  [[nodiscard]] uint32_t micro(uint64_t n) const {
    return static_cast<uint32_t>(n / (uint64_t{group_} * shape_.chunks) * group_ + n % group_);
  }
  [[nodiscard]] uint32_t stage(uint64_t n, bool forward) const {
    const auto chunk = static_cast<uint32_t>(n / group_ % shape_.chunks);
    return stage_of(stage_placement::round_robin, shape_.ranks, rank_, forward ? chunk : shape_.chunks - 1 - chunk);
  }

 private:
  pipeline_shape shape_;
  uint32_t rank_, group_ = 1;
  uint64_t count_ = 0;
};

}  // namespace

std::vector<action> interleaved_order(const pipeline_shape& s, uint32_t rank, const interleaving& how) {
  const turns turn(s, rank);
  order_writer out(s.micro_batches);
  const auto forward = [&](uint64_t n) { out.add(action_type::forward, turn.stage(n, true), turn.micro(n)); };
  const auto backward = [&](action_type type, uint64_t n) { out.add(type, turn.stage(n, false), turn.micro(n)); };

  const uint64_t ahead = uint64_t{s.chunks - 1} * turn.group() + uint64_t{how.forwards_per_hop} * (s.ranks - 1 - rank);
  const uint64_t warm_up = std::min(ahead, turn.count());
  const uint64_t deferred = uint64_t{how.deferred_per_rank} * rank;
  for (uint64_t n = 0; n < warm_up; ++n) forward(n);
  for (uint64_t n = 0; n < turn.count(); ++n) {
    if (n + warm_up < turn.count()) forward(n + warm_up);
    backward(how.split ? action_type::backward_input : action_type::backward, n);
    if (how.split && n >= deferred) backward(action_type::backward_weight, n - deferred);
  }
  if (how.split)
    for (uint64_t n = turn.count() - std::min(deferred, turn.count()); n < turn.count(); ++n)
      backward(action_type::backward_weight, n);
  return out.done();
}

std::vector<action> forward_only_order(const pipeline_shape& s, uint32_t rank) {
  const turns turn(s, rank);
  order_writer out(s.micro_batches);
  for (uint64_t n = 0; n < turn.count(); ++n) out.add(action_type::forward, turn.stage(n, true), turn.micro(n));
  return out.done();
}

}  // namespace troupe::plan
