#include "fabric/in_process.hpp"

#include <cassert>

#include "fabric/layout.hpp"
#include "fabric/sentences.hpp"

namespace troupe::fabric {
namespace {

void call(const std::vector<std::pair<std::shared_ptr<const waker>, uint64_t>>& wakes) {
  for (const auto& [wake, sequence] : wakes) (*wake)(sequence);
}

}  // namespace

std::shared_ptr<in_process_group> in_process_group::make(uint32_t size, device::device_id device,
                                                         std::vector<uint32_t> ranks) {
  return std::shared_ptr<in_process_group>(new in_process_group(size, device, std::move(ranks)));
}

std::unique_ptr<communicator> in_process_group::join(uint32_t rank, waker wake) {
  const std::lock_guard lock(mutex_);
  const uint32_t size = rendezvous_.size();
  if (const auto why = wrong_ ? wrong_ : wrong_rank(rank, size, rank < size && joined_[rank]))
    return refused_member(rank, size, *why);
  joined_[rank] = true;
  if (wake) wakers_[rank] = std::make_shared<const waker>(std::move(wake));
  return std::make_unique<member_of<in_process_group>>(shared_from_this(), rank);
}

in_process_group::wakes in_process_group::all_but(uint32_t rank, uint64_t sequence) const {
  wakes out;
  for (uint32_t other = 0; other < wakers_.size(); ++other)
    if (other != rank && wakers_[other]) out.emplace_back(wakers_[other], sequence);
  return out;
}

in_process_group::wakes in_process_group::end_with(uint32_t rank, const core::error& why) {
  wakes out;
  stop_.store(true, std::memory_order_relaxed);
  for (const auto& [other, sequence] : rendezvous_.fail(why))
    if (other != rank && wakers_[other]) out.emplace_back(wakers_[other], sequence);
  return out;
}

core::result<progress> in_process_group::move(std::unique_lock<std::mutex>& lock, posted_operation& m, uint32_t rank,
                                              uint32_t first, uint32_t last) {
  const uint64_t sequence = m.shared.id.sequence;
  ++moving_;
  lock.unlock();
  // Inputs of other members may be read without the lock: the members wrote them before they took the lock to post, and
  // must not change them until every member has done its part.
  std::optional<core::error> broken;
  for (uint32_t r = first; r < last && !broken; ++r)
    if (auto done = do_share(device_, m.shared, m.memory, r, stop_); !done) broken = std::move(done.error());
  lock.lock();
  --moving_;
  if (broken) {
    const wakes told = end_with(rank, *broken);
    const core::error why = rendezvous_.failure().value_or(*broken);
    lock.unlock();
    moved_.notify_all();
    call(told);
    return core::fail(why);
  }
  if (rendezvous_.failure()) {
    const core::error why = *rendezvous_.failure();
    lock.unlock();
    moved_.notify_all();
    return core::fail(why);
  }
  bool complete = false;
  for (uint32_t r = first; r < last; ++r) complete = rendezvous_.finish(sequence, r);
  if (!complete) return progress::pending;
  const wakes others = all_but(rank, sequence);
  lock.unlock();
  call(others);
  return progress::done;
}

core::result<void> in_process_group::post(uint32_t rank, const request& r) {
  auto sound = check_presence(r, rank);
  if (!sound) sound = core::fail(unsound(rendezvous_.name_of(rank), r, sound.error()));
  assert(!sound || !check_request(r, rendezvous_.size()) ||
         (check_memory(r, rank) && check_outputs(r.op, r.pieces, rendezvous_.size())));

  std::unique_lock lock(mutex_);
  auto arrived = sound ? rendezvous_.arrive(rank, r) : core::fail(sound.error());
  if (!arrived) {
    const core::error why = rendezvous_.failure().value_or(arrived.error());
    const wakes others = end_with(rank, why);
    lock.unlock();
    call(others);
    return core::fail(why);
  }
  posted_operation& m = **arrived;
  const uint32_t size = rendezvous_.size();
  if (m.arrived < size) return {};
  if (m.bytes <= last_arrival_does_all_bytes) {
    m.shares.assign(size, posted_operation::share::begun);
    TROUPE_TRY(move(lock, m, rank, 0, size));
    return {};
  }
  const wakes others = all_but(rank, r.id.sequence);
  lock.unlock();
  call(others);
  return {};
}

core::result<progress> in_process_group::advance(uint32_t rank, uint64_t sequence) {
  std::unique_lock lock(mutex_);
  TROUPE_ASSIGN(const auto found, rendezvous_.find(rank, sequence));
  if (found == nullptr) return progress::done;
  posted_operation& m = *found;
  if (m.arrived < rendezvous_.size() || m.shares[rank] != posted_operation::share::waiting) return progress::pending;
  m.shares[rank] = posted_operation::share::begun;
  return move(lock, m, rank, rank, rank + 1);
}

void in_process_group::abort(uint32_t rank, const core::error& why) {
  std::unique_lock lock(mutex_);
  const wakes others = end_with(rank, why);
  lock.unlock();
  call(others);
}

void in_process_group::leave(uint32_t rank) {
  std::unique_lock lock(mutex_);
  const wakes others = end_with(rank, rendezvous_.lost(rank));
  wakers_[rank].reset();
  lock.unlock();
  call(others);
  lock.lock();
  // Waits until no thread copies. The wait is short: copies check `stop_` after every chunk and wait for no member.
  moved_.wait(lock, [this] { return moving_ == 0; });
}

}  // namespace troupe::fabric
