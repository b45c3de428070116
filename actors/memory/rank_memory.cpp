#include "actors/memory/rank_memory.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::actors {

core::result<std::shared_ptr<rank_memory>> rank_memory::allocate(std::shared_ptr<const plan::rank_plan> trains,
                                                                 const plan::pool_sizes& pools,
                                                                 device::device_id device) {
  auto m = std::make_shared<rank_memory>();
  m->plan_ = std::move(trains);
  m->pools_ = pools;
  m->device_ = device;
  const auto& t = m->plan_->memory;
  const std::pair<storage::huge_memory*, uint64_t> taken[] = {
      {&m->parameters_, t.parameters},
      {&m->gathered_, pools.of(plan::pool::gathered)},
      {&m->master_, t.master},
      {&m->moments_, t.moments},
      {&m->gradients_, t.gradients},
      {&m->accumulated_, t.accumulated},
      {&m->directions_, t.directions},
      {&m->undo_, t.undo},
      {&m->votes_, m->plan_->layout->vote_elements() * sizeof(double)},
      {&m->norms_, m->plan_->layout->measured_elements() * sizeof(double)},
      {&m->states_, pools.of(plan::pool::states)},
      {&m->shards_, pools.of(plan::pool::shards)},
      {&m->reduced_, pools.of(plan::pool::reduced)},
      {&m->activations_, pools.of(plan::pool::activations)}};
  for (const auto& [pool, bytes] : taken) {
    auto got = storage::huge_memory::allocate(bytes);
    if (!got) return core::fail(got.error().in("rank " + std::to_string(m->plan_->rank)));
    *pool = std::move(*got);
  }
  m->find_cached();
  return m;
}

core::result<void> rank_memory::take_staging() {
  if (staging_.data() != nullptr) return {};
  auto got = storage::huge_memory::allocate(pools_.of(plan::pool::staging));
  if (!got) return core::fail(got.error().in("rank " + std::to_string(plan_->rank) + ", staging for checkpoints"));
  staging_ = std::move(*got);
  return {};
}

void rank_memory::write_ends(const std::optional<core::error>& failure) {
  if (failure && !failed_write_) failed_write_ = failure->in("a write of the step before");
  if (writes_under_way_.fetch_sub(1, std::memory_order_release) == 1) writes_under_way_.notify_all();
}

core::result<void> rank_memory::settle_writes() const {
  for (uint32_t n = writes_under_way_.load(std::memory_order_acquire); n > 0;
       n = writes_under_way_.load(std::memory_order_acquire))
    writes_under_way_.wait(n, std::memory_order_acquire);
  if (failed_write_) return core::fail(*failed_write_);
  return {};
}

std::byte* rank_memory::parameter(uint32_t q, uint64_t first) const {
  const auto& p = *plan_;
  const uint64_t at = p.options().stage == 3 ? p.offsets.shard[q] + first - p.layout->partition.of(q, p.rank).first
                                             : p.layout->full_offset[q] + first;
  return parameters_.data() + at * core::size_of(p.options().parameter);
}

std::byte* rank_memory::state(const plan::owned_piece& piece, plan::state_part part, std::byte* window) const {
  const auto& p = *plan_;
  const auto& b = plan::block_at(p, piece.state_offset);
  const uint64_t element_bytes = core::size_of(plan::type_of(*p.layout, part)), inside = piece.state_offset - b.first;
  if (b.holds(part))
    return window == nullptr ? nullptr : window + plan::part_offset(*p.layout, b, part) + inside * element_bytes;
  const auto k = static_cast<size_t>(part);
  switch (part) {
    case plan::state_part::gradient:
      if (!p.options().buckets_stay()) return accumulated_.data() + piece.state_offset * element_bytes;
      return reduced_gradient(piece.parameter, piece.range.first);
    case plan::state_part::copy:
      return parameter(piece.parameter, piece.range.first);
    case plan::state_part::master:
      if (p.options().master_is_parameter()) return parameter(piece.parameter, piece.range.first);
      return master_.data() + (b.resident[k] + inside) * element_bytes;
    case plan::state_part::first_moment:
      return moments_.data() + (b.resident[k] + inside) * element_bytes;
    case plan::state_part::second_moment:
      return moments_.data() + (p.resident_elements[k - 1] + b.resident[k] + inside) * element_bytes;
  }
  return nullptr;
}

std::byte* rank_memory::copy(const plan::owned_piece& piece, std::byte* window) const {
  if (plan_->options().master_is_parameter()) return nullptr;
  if (plan_->blocks.empty()) return parameter(piece.parameter, piece.range.first);
  return state(piece, plan::state_part::copy, window);
}

std::byte* rank_memory::gradient(const plan::owned_piece& piece, std::byte* window) const {
  if (plan_->blocks.empty()) return reduced_gradient(piece.parameter, piece.range.first);
  return state(piece, plan::state_part::gradient, window);
}

std::byte* rank_memory::window(const plan::rank_plan& p, uint32_t buffer) const {
  const auto& b = p.buffers[buffer];
  switch (b.pool) {
    case plan::pool::states:
      return states_.data() + b.offset;
    case plan::pool::shards:
      return shards_.data() + b.offset;
    case plan::pool::activations:
      return activations_.data() + b.offset;
    default:
      return reduced_.data() + b.offset;
  }
}

std::vector<std::span<std::byte>> rank_memory::windows() const {
  std::vector<std::span<std::byte>> out;
  const bool stored = plan_->options().tiers.activations == plan::tier::nvme;
  for (const auto* pool : {&states_, &shards_, &reduced_, stored ? &activations_ : nullptr})
    if (pool != nullptr && pool->bytes() > 0) out.emplace_back(pool->data(), pool->bytes());
  return out;
}

void rank_memory::find_cached() {
  const auto& p = *plan_;
  cached_in_.resize(p.table().parameters.size());
  cached_.resize(p.layout->cached.size());
  uint64_t offset = 0;
  for (uint32_t k = 0; k < p.layout->cached.size(); ++k) {
    if (!p.layout->cached[k]) continue;
    cached_[k] = {plan::shard_runs(p, k), offset};
    offset += plan::window_elements(cached_[k].runs);
    for (const auto& x : p.layout->gather_sets[k].parameters) cached_in_[x.parameter].push_back(k);
  }
}

std::byte* rank_memory::cached(uint32_t set) const {
  if (cached_.empty() || !plan_->layout->cached[set] || parameters_.data() == nullptr) return nullptr;
  return parameters_.data() + cached_[set].offset * core::size_of(plan_->options().parameter);
}

void rank_memory::refresh_cached(const plan::owned_piece& piece, const std::byte* weights) const {
  const uint64_t element_bytes = core::size_of(plan_->options().parameter);
  for (uint32_t set : cached_in_[piece.parameter])
    std::memcpy(cached(set) + plan::in_window(cached_[set].runs, piece.state_offset) * element_bytes, weights,
                piece.range.count * element_bytes);
}

std::byte* rank_memory::master(const plan::owned_piece& piece, std::byte* window) const {
  if (!plan_->blocks.empty()) return state(piece, plan::state_part::master, window);
  if (plan_->options().master_is_parameter()) return parameter(piece.parameter, piece.range.first);
  return master_.data() + piece.state_offset * core::size_of(plan_->options().master());
}

std::byte* rank_memory::moment(const plan::owned_piece& piece, uint32_t which, std::byte* window) const {
  const auto& p = *plan_;
  if (which >= p.options().update_of(piece.parameter).moments) return nullptr;
  if (!p.blocks.empty()) return state(piece, plan::moment_part(which), window);
  uint64_t at = p.moment_offset[which][piece.parameter] + piece.range.first - p.own_states(piece.parameter).first;
  for (uint32_t k = 0; k < which; ++k) at += p.moment_elements[k];
  return moments_.data() + at * core::size_of(p.options().master());
}

std::byte* rank_memory::reduced_gradient(uint32_t q, uint64_t first, std::byte* window) const {
  const auto& p = *plan_;
  const auto place = plan::reduced_gradient(p, q, first);
  const uint64_t bytes = place.offset * core::size_of(p.options().accumulation_type);
  if (!place.in_bucket && p.layout->swaps_gradients()) return window == nullptr ? nullptr : window + bytes;
  if (!place.in_bucket) return accumulated_.data() + bytes;
  const uint32_t last = p.layout->bucket_of[q] * p.options().accumulation + p.options().accumulation - 1;
  return gradients_.data() + p.buffers[p.bucket_buffer[last]].offset + bytes;
}

const storage::huge_memory& rank_memory::pool(uint64_t plan::memory_table::*owner) const {
  using table = plan::memory_table;
  const std::pair<uint64_t table::*, const storage::huge_memory*> pools[] = {{&table::parameters, &parameters_},
                                                                             {&table::master, &master_},
                                                                             {&table::moments, &moments_},
                                                                             {&table::gradients, &gradients_}};
  for (const auto& [of, pool] : pools)
    if (of == owner) return *pool;
  return accumulated_;
}

plan::memory_table rank_memory::resident() const {
  plan::memory_table t = plan_->memory;
  t.gathered = pools_.of(plan::pool::gathered);
  t.windows = states_.bytes() + shards_.bytes() + reduced_.bytes();
  t.activations = 0;
  t.offloaded_activations = activations_.bytes();
  t.staging = staging_.data() == nullptr ? 0 : pools_.of(plan::pool::staging);
  return t;
}

}  // namespace troupe::actors
