#include "storage/memory/staging_pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/math.hpp"
#include "storage/memory/huge_memory.hpp"

namespace troupe::storage {

struct staging_pool::shared_state {
  huge_memory memory;
  uint64_t block_bytes = 0;
  std::mutex lock;
  std::condition_variable returned;
  std::vector<uint32_t> free;
  staging_counters counters;

  std::span<std::byte> lend(uint32_t& index) {
    index = free.back();
    free.pop_back();
    ++counters.leases;
    counters.most_in_use = std::max(counters.most_in_use, ++counters.in_use);
    return {memory.data() + index * block_bytes, block_bytes};
  }
};

staging_pool::lease::lease(lease&& o) noexcept
    : of_(std::move(o.of_)), index_(o.index_), memory_(std::exchange(o.memory_, {})) {}

staging_pool::lease& staging_pool::lease::operator=(lease&& o) noexcept {
  if (this == &o) return *this;
  end();
  of_ = std::move(o.of_);
  index_ = o.index_;
  memory_ = std::exchange(o.memory_, {});
  return *this;
}

staging_pool::lease::~lease() { end(); }

void staging_pool::lease::end() {
  if (!of_) return;
  {
    const std::lock_guard guard(of_->lock);
    of_->free.push_back(index_);
    --of_->counters.in_use;
  }
  of_->returned.notify_one();
  of_.reset();
  memory_ = {};
}

core::result<staging_pool> staging_pool::create(uint64_t block_bytes, uint64_t num_blocks) {
  const uint64_t most = std::numeric_limits<int64_t>::max() / blocks_max;
  if (block_bytes == 0 || num_blocks == 0 || num_blocks > blocks_max || block_bytes > most)
    return core::fail(core::error_kind::bad_input, "staging pool: wanted 1 to " + std::to_string(blocks_max) +
                                                       " blocks of 1 to " + std::to_string(most) + " bytes, got " +
                                                       std::to_string(num_blocks) + " of " +
                                                       std::to_string(block_bytes));
  staging_pool out;
  out.state_ = std::make_shared<shared_state>();
  auto& state = *out.state_;
  state.block_bytes = core::round_up(block_bytes, block_alignment_bytes);
  auto memory = huge_memory::allocate(state.block_bytes * num_blocks);
  if (!memory) return core::fail(memory.error().in("staging pool"));
  state.memory = std::move(*memory);
  state.free.reserve(num_blocks);
  for (uint64_t i = num_blocks; i > 0; --i) state.free.push_back(static_cast<uint32_t>(i - 1));
  state.counters.blocks = num_blocks;
  return out;
}

uint64_t staging_pool::block_bytes() const { return state_->block_bytes; }

staging_counters staging_pool::counters() const {
  const std::lock_guard guard(state_->lock);
  return state_->counters;
}

std::span<std::byte> staging_pool::memory() const { return {state_->memory.data(), state_->memory.bytes()}; }

std::optional<staging_pool::lease> staging_pool::try_take() {
  const std::lock_guard guard(state_->lock);
  if (state_->free.empty()) {
    ++state_->counters.waits;
    return std::nullopt;
  }
  lease out;
  out.memory_ = state_->lend(out.index_);
  out.of_ = state_;
  return out;
}

staging_pool::lease staging_pool::take() {
  std::unique_lock guard(state_->lock);
  if (state_->free.empty()) {
    ++state_->counters.waits;
    state_->returned.wait(guard, [this] { return !state_->free.empty(); });
  }
  lease out;
  out.memory_ = state_->lend(out.index_);
  out.of_ = state_;
  return out;
}

}  // namespace troupe::storage
