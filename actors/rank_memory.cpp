#include "actors/rank_memory.hpp"

#include <algorithm>

namespace troupe::actors {

core::result<std::shared_ptr<rank_memory>> rank_memory::allocate(
    const std::vector<std::shared_ptr<const plan::step_plan>>& plans) {
  auto m = std::make_shared<rank_memory>();
  m->plan_ = plans.front();
  const auto& t = plans.front()->memory;
  for (const auto& p : plans) {
    m->gathered_bytes_ = std::max(m->gathered_bytes_, p->memory.gathered);
    m->staging_bytes_ = std::max(m->staging_bytes_, p->memory.staging);
  }
  const std::pair<storage::huge_memory*, uint64_t> pools[] = {
      {&m->parameters_, t.parameters}, {&m->gathered_, m->gathered_bytes_}, {&m->master_, t.master},
      {&m->moments_, t.moments},       {&m->gradients_, t.gradients},       {&m->accumulated_, t.accumulated},
      {&m->directions_, t.directions}};
  for (const auto& [pool, bytes] : pools) {
    auto got = storage::huge_memory::allocate(bytes);
    if (!got) return core::fail(got.error().in("rank " + std::to_string(m->plan_->rank)));
    *pool = std::move(*got);
  }
  return m;
}

core::result<void> rank_memory::take_staging() {
  if (staging_.data() != nullptr) return {};
  auto got = storage::huge_memory::allocate(staging_bytes_);
  if (!got) return core::fail(got.error().in("rank " + std::to_string(plan_->rank) + ", staging for checkpoints"));
  staging_ = std::move(*got);
  return {};
}

std::byte* rank_memory::parameter(uint32_t q, uint64_t first) const {
  const auto& p = *plan_;
  const uint64_t at = p.options.stage == 3 ? p.shard_offset[p.rank][q] + first - p.partition.of(q, p.rank).first
                                           : p.full_offset[q] + first;
  return parameters_.data() + at * core::size_of(p.options.parameter);
}

std::byte* rank_memory::master(const plan::owned_piece& piece) const {
  if (plan_->options.master_is_parameter()) return parameter(piece.parameter, piece.range.first);
  return master_.data() + piece.state_offset * core::size_of(plan_->options.master());
}

std::byte* rank_memory::moment(const plan::owned_piece& piece, uint32_t which) const {
  const auto& p = *plan_;
  if (which >= p.options.update_of(piece.parameter).moments) return nullptr;
  uint64_t at =
      p.moment_offset[which][piece.parameter] + piece.range.first - p.state_slice(piece.parameter, p.rank).first;
  for (uint32_t k = 0; k < which; ++k) at += p.moment_elements[k];
  return moments_.data() + at * core::size_of(p.options.master());
}

const std::byte* rank_memory::reduced_gradient(uint32_t q, uint64_t first) const {
  const auto& p = *plan_;
  const auto place = plan::reduced_gradient(p, q, first);
  const uint64_t bytes = place.offset * core::size_of(p.options.accumulation_type);
  if (!place.in_bucket) return accumulated_.data() + bytes;
  const uint32_t last = p.bucket_of[q] * p.options.accumulation + p.options.accumulation - 1;
  return gradients_.data() + p.buffers[p.bucket_buffer[last]].offset + bytes;
}

plan::memory_table rank_memory::resident() const {
  plan::memory_table t = plan_->memory;
  t.gathered = gathered_bytes_;
  t.activations = 0;
  t.staging = staging_.data() == nullptr ? 0 : staging_bytes_;
  return t;
}

}  // namespace troupe::actors
