#include "actors/shard_executor.hpp"

#include <cmath>

#include "core/math.hpp"
#include "kernels/norm.hpp"

namespace troupe::actors {

std::string first_nonfinite_parameter(const plan::step_plan& p, const std::vector<double>& votes) {
  for (size_t q = 0; q < p.block_offset.size(); ++q) {
    const uint64_t end = q + 1 < p.block_offset.size() ? p.block_offset[q + 1] : p.num_blocks;
    for (uint64_t b = p.block_offset[q]; b < end; ++b)
      if (!std::isfinite(votes[b])) return p.table->parameters[q].name;
  }
  return "none";
}

void shard_executor::square_sums(uint32_t bucket) {
  const auto& p = context_->plan();
  for (const auto& x : p.buckets[bucket].parameters) {
    const auto& own = p.partition.of(x.parameter, p.rank);
    if (own.count == 0) continue;
    const uint64_t block = p.block_offset[x.parameter] + own.first / core::partition_grain;
    kernels::block_square_sums(
        memory_->reduced_gradient(x.parameter, own.first), p.options.accumulation_type, own.count,
        std::span(context_->votes).subspan(block, core::div_up(own.count, core::partition_grain)));
  }
}

core::result<void> shard_executor::update(const plan::sub_group& group) {
  const auto& p = context_->plan();
  const auto& o = p.options;
  const verdict& v = context_->decide();
  if (v.overflow)
    return core::fail(core::error_kind::numeric, "the gradient is not finite, first in " +
                                                     first_nonfinite_parameter(p, context_->votes) + "; loss " +
                                                     std::to_string(v.loss));
  const kernels::optimizer_step step{context_->order.applied + 1, context_->order.lr, v.gradient_scale};
  for (const auto& piece : group.pieces) {
    if (o.master() == core::dtype::f64)
      kernels::update(options_, step, at<double>(piece));
    else
      kernels::update(options_, step, at<float>(piece));
  }
  return {};
}

template <class State>
kernels::optimizer_piece<State> shard_executor::at(const plan::owned_piece& piece) const {
  const auto& o = context_->plan().options;
  kernels::optimizer_piece<State> out;
  out.master = reinterpret_cast<State*>(memory_->master(piece));
  out.moments = {reinterpret_cast<State*>(memory_->first_moment(piece)),
                 reinterpret_cast<State*>(memory_->second_moment(piece))};
  out.gradient = memory_->reduced_gradient(piece.parameter, piece.range.first);
  out.gradient_dtype = o.accumulation_type;
  out.copy = o.master_is_parameter() ? nullptr : memory_->parameter(piece.parameter, piece.range.first);
  out.copy_dtype = o.parameter;
  out.count = piece.range.count;
  return out;
}

core::result<progress> shard_executor::start(const plan::instruction& x) {
  switch (x.kind) {
    case plan::kind::norm:
      square_sums(x.subject);
      return progress::done;
    case plan::kind::update:
      if (!context_->acts(x.guard)) return progress::done;
      if (auto did = update(context_->plan().sub_groups[x.subject]); !did) return core::fail(did.error());
      return progress::done;
    default:
      return core::fail(core::error_kind::bug, "not for the shard lane");
  }
}

}  // namespace troupe::actors
