#include "storage/files/memory_segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/math.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::storage {
namespace {

constexpr uint64_t page_bytes = 4096;

}  // namespace

core::result<memory_segments::segment> memory_segments::take(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto memory = take_kept(bytes);
  if (memory == nullptr) {
    const uint64_t needed = core::round_up(bytes, page_bytes);
    make_room(needed);
    const auto refused = [&](uint64_t room, const std::string& of) {
      return core::fail(core::error_kind::no_space,
                        fmt::format("memory for files: wanted {} bytes, {} of {} are free", needed, room, of));
    };
    if (needed > limit_bytes_ - std::min(limit_bytes_, use_.used))
      return refused(limit_bytes_ - std::min(limit_bytes_, use_.used), fmt::format("at most {}", limit_bytes_));
    // The kernel allocates pages when they are touched; a process that touches a page that cannot be allocated is
    // killed.
    if (const auto free = free_memory(); free && free->bytes < needed) return refused(free->bytes, free->where);
    TROUPE_ASSIGN(auto made, shared_memory::create(bytes));
    memory = std::make_unique<shared_memory>(std::move(made));
    ++use_.made;
  }
  use_.used += memory->bytes();
  use_.most_used = std::max(use_.most_used, use_.used);
  return segment(memory.release(), [home = weak_from_this()](shared_memory* p) {
    owned back(p);
    if (const auto there = home.lock()) there->give_back(std::move(back));
  });
}

memory_segments::owned memory_segments::take_kept(uint64_t bytes) {
  const uint64_t largest = std::max(2 * bytes, small_segment_bytes);
  auto best = kept_.end();
  for (auto at = kept_.begin(); at != kept_.end(); ++at)
    if ((*at)->bytes() >= bytes && (*at)->bytes() <= largest &&
        (best == kept_.end() || (*at)->bytes() < (*best)->bytes()))
      best = at;
  if (best == kept_.end()) return nullptr;
  auto out = std::move(*best);
  kept_.erase(best);
  use_.kept -= out->bytes();
  return out;
}

void memory_segments::make_room(uint64_t bytes) {
  while (!kept_.empty() && use_.used + use_.kept + bytes > limit_bytes_) drop_oldest();
  if (const auto free = free_memory(); !kept_.empty() && free && free->bytes < bytes)
    while (!kept_.empty()) drop_oldest();
}

void memory_segments::drop_oldest() {
  use_.kept -= kept_.front()->bytes();
  kept_.pop_front();
}

void memory_segments::give_back(owned memory) {
  const std::lock_guard lock(mutex_);
  use_.used -= memory->bytes();
  use_.kept += memory->bytes();
  kept_.push_back(std::move(memory));
  while (kept_.size() > max_kept_segments || use_.kept > use_.most_used) drop_oldest();
}

segment_use memory_segments::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

}  // namespace troupe::storage
