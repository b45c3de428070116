#include "actors/memory/rank_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "actors/memory/pools.hpp"
#include "device/stream.hpp"

namespace troupe::actors {

namespace {

using owner = plan::pool;

constexpr owner window_pools[] = {owner::states, owner::shards, owner::reduced, owner::activations};

}  // namespace

core::result<std::shared_ptr<rank_memory>> rank_memory::allocate(std::shared_ptr<const plan::rank_plan> trains,
                                                                 const plan::pool_sizes& sizes,
                                                                 const memory_place& place) {
  auto m = std::make_shared<rank_memory>();
  m->plan_ = std::move(trains);
  m->sizes_ = sizes;
  m->place_ = place;
  const std::string rank = fmt::format("rank {}", m->plan_->rank);
  const bool shares = !place.shared.bytes.empty();
  const auto layout = shared_layout_of(*m->plan_, sizes);
  for (uint32_t k = 0; k < plan::num_owners; ++k) {
    const auto which = static_cast<owner>(k);
    if (which == owner::staging) continue;  // take_staging() allocates it
    const auto tier = pool_tier(m->plan_->options(), which, place.windows);
    const uint64_t bytes = pool_bytes(*m->plan_, sizes, which);
    if (shares && is_shared(which) && bytes > 0) {
      m->pools_[k] = device::memory::of(place.shared.owner, place.shared.bytes.subspan(layout.offset[k], bytes),
                                        place.device, tier);
      continue;
    }
    if (!place.is_here) continue;
    auto got = device::memory::allocate(place.device, tier, bytes);
    if (!got) return core::fail(got.error().in(rank));
    m->pools_[k] = std::move(*got);
  }
  for (const auto which : window_pools)
    if (reinterpret_cast<uintptr_t>(m->at(which)) % plan::swap_page_bytes != 0)
      return core::fail(core::error_kind::bug, fmt::format("{}: memory: wanted windows at multiples of {} bytes", rank,
                                                           plan::swap_page_bytes));
  m->find_cached();
  return m;
}

core::result<void> rank_memory::train_by(std::shared_ptr<const plan::rank_plan> trains, const plan::pool_sizes& sizes) {
  std::vector<owner> within_a_step = {owner::gathered,  owner::buckets,    owner::directions,
                                      owner::transfers, owner::compressed, owner::undo};
  if (trains->options().tiers.activations != plan::tier::nvme) within_a_step.push_back(owner::activations);
  std::vector<std::pair<owner, device::memory>> grown;
  for (uint32_t k = 0; k < plan::num_owners; ++k) {
    const auto which = static_cast<owner>(k);
    const uint64_t bytes = pool_bytes(*trains, sizes, which);
    if (which == owner::staging || bytes <= pools_[k].bytes()) continue;
    const std::string rank = fmt::format("rank {}", trains->rank);
    if (!place_.is_here && place_.shared.bytes.empty()) continue;  // the rank is on another machine
    if (is_shared(which) && !place_.shared.bytes.empty())
      return core::fail(core::error_kind::limit, fmt::format("{}: between two steps: wanted at most {} bytes of memory "
                                                             "that processes share, as the term began with, got {}",
                                                             rank, pools_[k].bytes(), bytes));
    if (!place_.is_here) continue;
    if (std::ranges::find(within_a_step, which) == within_a_step.end())
      return core::fail(core::error_kind::limit, fmt::format("{}: passes between two steps: wanted windows and states "
                                                             "of at most {} bytes, as the run began with, got {}",
                                                             rank, pools_[k].bytes(), bytes));
    auto got = device::memory::allocate(place_.device, pool_tier(trains->options(), which, place_.windows), bytes);
    if (!got) return core::fail(got.error().in(rank));
    grown.emplace_back(which, std::move(*got));
  }
  for (auto& [which, memory] : grown) pools_[static_cast<size_t>(which)] = std::move(memory);
  plan_ = std::move(trains);
  sizes_ = sizes;
  return {};
}

core::result<void> rank_memory::take_staging() {
  if (at(owner::staging) != nullptr || !is_here()) return {};
  auto got = device::memory::allocate(place_.device, pool_tier(plan_->options(), owner::staging, place_.windows),
                                      pool_bytes(*plan_, sizes_, owner::staging));
  if (!got) return core::fail(got.error().in(fmt::format("rank {}, staging for checkpoints", plan_->rank)));
  pools_[static_cast<size_t>(owner::staging)] = std::move(*got);
  return {};
}

std::shared_ptr<const void> rank_memory::owner_of(const std::byte* at) const {
  for (const auto& one : pools_) {
    const std::byte* const first = one.data();
    if (first != nullptr && std::less_equal<>()(first, at) && std::less<>()(at, first + one.bytes()))
      return one.owner();
  }
  return nullptr;
}

std::optional<std::string> rank_memory::unpinned() const {
  for (const auto which : window_pools)
    if (const auto& remark = pool(which).remark()) return remark;
  return std::nullopt;
}

void rank_memory::write_ends(const std::optional<core::error>& failure) {
  if (failure && !failed_write_) failed_write_ = failure->in("a write of the previous step");
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
  const uint64_t place = p.options().stage == 3 ? p.offsets.shard[q] + first - p.layout->slice_of(q, p.rank).first
                                                : p.layout->full_offset[q] + first;
  return at(owner::parameters) + place * core::size_of(p.options().types.parameter);
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
      if (!p.options().reduces_in_place()) return at(owner::accumulated) + piece.state_offset * element_bytes;
      return reduced_gradient(piece.parameter, piece.range.first);
    case plan::state_part::copy:
      return parameter(piece.parameter, piece.range.first);
    case plan::state_part::master:
      if (p.options().master_is_parameter()) return parameter(piece.parameter, piece.range.first);
      return at(owner::master) + (b.resident[k] + inside) * element_bytes;
    case plan::state_part::first_moment:
    case plan::state_part::second_moment:
    case plan::state_part::third_moment: {
      uint64_t before = 0;  // elements of the moments with lower numbers, which come first in the pool
      for (size_t lower = k - plan::moment_of(part); lower < k; ++lower) before += p.resident_elements[lower];
      return at(owner::moments) + (before + b.resident[k] + inside) * element_bytes;
    }
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
  return at(b.pool) + b.offset;
}

std::vector<std::span<std::byte>> rank_memory::windows() const {
  std::vector<std::span<std::byte>> out;
  const bool stored = plan_->options().tiers.activations == plan::tier::nvme;
  for (const auto which : window_pools)
    if ((which != owner::activations || stored) && pool(which).bytes() > 0)
      out.emplace_back(at(which), pool(which).bytes());
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
  if (cached_.empty() || !plan_->layout->cached[set] || at(owner::parameters) == nullptr) return nullptr;
  return at(owner::parameters) + cached_[set].offset * core::size_of(plan_->options().types.parameter);
}

std::byte* rank_memory::cached_weights(const plan::owned_piece& piece) const {
  if (cached_in_[piece.parameter].empty()) return nullptr;
  const uint32_t set = cached_in_[piece.parameter].front();
  return cached(set) +
         plan::in_window(cached_[set].runs, piece.state_offset) * core::size_of(plan_->options().types.parameter);
}

void rank_memory::refresh_cached(const plan::owned_piece& piece, const std::byte* weights) const {
  const uint64_t element_bytes = core::size_of(plan_->options().types.parameter);
  for (uint32_t set : cached_in_[piece.parameter])
    device::stream::current(place_.device)
        .copy(cached(set) + plan::in_window(cached_[set].runs, piece.state_offset) * element_bytes, weights,
              piece.range.count * element_bytes);
}

void rank_memory::keep_near(const plan::rank_plan& p, uint32_t set, const std::byte* gathered) const {
  const uint64_t element_bytes = core::size_of(p.options().types.parameter);
  const plan::rank_slices mine(*p.layout, p.rank);
  for (const auto& x : p.layout->gather_sets[set].parameters) {
    const plan::slice own = mine.near(x.parameter);
    if (own.count == 0) continue;
    const uint64_t to = plan::near_place(mine, p.offsets, set, x.parameter);
    device::stream::current(place_.device)
        .copy(at(owner::near_copies) + to * element_bytes, gathered + (x.offset + own.first) * element_bytes,
              own.count * element_bytes);
  }
}

std::byte* rank_memory::master(const plan::owned_piece& piece, std::byte* window) const {
  if (!plan_->blocks.empty()) return state(piece, plan::state_part::master, window);
  if (plan_->options().master_is_parameter()) return parameter(piece.parameter, piece.range.first);
  return at(owner::master) + piece.state_offset * core::size_of(plan_->options().master());
}

std::byte* rank_memory::moment(const plan::owned_piece& piece, uint32_t which, std::byte* window) const {
  const auto& p = *plan_;
  if (which >= p.options().update_of(piece.parameter).moments) return nullptr;
  if (!p.blocks.empty()) return state(piece, plan::moment_part(which), window);
  uint64_t place = p.moment_offset[which][piece.parameter] + piece.range.first - p.own_states(piece.parameter).first;
  for (uint32_t k = 0; k < which; ++k) place += p.moment_elements[k];
  return at(owner::moments) + place * core::size_of(p.options().master());
}

std::byte* rank_memory::reduced_gradient(uint32_t q, uint64_t first, std::byte* window) const {
  const auto& p = *plan_;
  const auto place = plan::reduced_gradient(p, q, first);
  const uint64_t bytes = place.offset * core::size_of(p.options().types.accumulation);
  if (!place.in_bucket && p.layout->swaps_gradients()) return window == nullptr ? nullptr : window + bytes;
  if (!place.in_bucket) return at(owner::accumulated) + bytes;
  const uint32_t last = p.layout->bucket_of[q] * p.options().accumulation + p.options().accumulation - 1;
  return at(owner::buckets) + p.buffers[p.bucket_buffer[last]].offset + bytes;
}

std::byte* rank_memory::last_gradient(const plan::rank_plan& p, uint32_t q) const {
  const uint32_t slot = p.bucket_window[p.layout->bucket_of[q]];
  return reduced_gradient(q, p.own_states(q).first, slot == plan::none ? nullptr : window(p, slot));
}

plan::memory_table rank_memory::resident() const {
  plan::memory_table t = plan_->memory;
  t.gathered = sizes_.of(owner::gathered);
  t.windows = is_here() ? pool(owner::states).bytes() + pool(owner::shards).bytes() + pool(owner::reduced).bytes()
                        : sizes_.of(owner::states) + sizes_.of(owner::shards) + sizes_.of(owner::reduced);
  t.activations = 0;
  t.offloaded_activations = pool(owner::activations).bytes();
  t.staging = at(owner::staging) == nullptr ? 0 : sizes_.of(owner::staging);
  return t;
}

}  // namespace troupe::actors
