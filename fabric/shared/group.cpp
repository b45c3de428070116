#include "fabric/shared/group.hpp"

#include <fmt/format.h>

#include <cassert>

#include "fabric/layout.hpp"
#include "fabric/movement.hpp"
#include "fabric/refused_member.hpp"
#include "fabric/sentences.hpp"

namespace troupe::fabric {

/// State of a member of the communicator that is a rank of this process.
struct shared_group::local {
  struct operation_here {
    request posted;
    bool begun = false;  ///< true: this member has begun its part of the operation
  };
  std::shared_ptr<const waker> wake;
  uint64_t next = 0;  ///< sequence number of the operation that this member posts next
  /// [sequence]: operations whose end has not been reported to this member
  std::map<uint64_t, operation_here> unfinished;
};

shared_group::shared_group(const board& b, std::shared_ptr<const address_space> space, bell ring,
                           device::device_id device, std::vector<uint32_t> ranks)
    : board_(b), space_(std::move(space)), ring_(std::move(ring)), device_(device), ranks_(std::move(ranks)) {}

std::shared_ptr<shared_group> shared_group::make(std::span<std::byte> memory, const board_shape& shape,
                                                 std::shared_ptr<const address_space> space, bell ring,
                                                 device::device_id device, std::vector<uint32_t> ranks) {
  auto wrong = wrong_size(shape.members, ranks);
  if (const auto ok = board::check(memory, shape); !wrong && !ok) wrong = ok.error();
  if (!wrong && (space == nullptr || !ring))
    wrong = core::error{core::error_kind::bad_input, space == nullptr
                                                         ? "the segments that processes share are not given"
                                                         : "no function that wakes the other processes is given"};
  std::shared_ptr<shared_group> out(
      new shared_group(board(memory, shape), std::move(space), std::move(ring), device, std::move(ranks)));
  out->wrong_ = std::move(wrong);
  return out;
}

std::unique_ptr<communicator> shared_group::join(uint32_t rank, waker wake) {
  const std::lock_guard lock(mutex_);
  const uint32_t size = board_.shape().members;
  if (const auto why = wrong_ ? wrong_ : wrong_rank(rank, size, here_.contains(rank)))
    return refused_member(rank, size, *why);
  here_[rank].wake = wake ? std::make_shared<const waker>(std::move(wake)) : nullptr;
  return std::make_unique<member_of<shared_group>>(shared_from_this(), rank);
}

std::string shared_group::name_of(uint32_t rank) const {
  return fmt::format("rank {}", ranks_.empty() ? rank : ranks_[rank]);
}

/// Returns the members to wake: members of this process that can begin or end an operation now, and all members of
/// other processes, because this process does not know which members of other processes have something to do.
shared_group::wakes shared_group::due() const {
  wakes out;
  for (uint32_t m = 0; m < board_.shape().members; ++m)
    if (!here_.contains(m)) out.elsewhere.push_back(m);
  const bool failed = board_.failure().has_value();
  for (const auto& [rank, me] : here_) {
    if (!me.wake) continue;
    for (const auto& [sequence, x] : me.unfinished)
      if (failed || board_.all_finished(sequence) || (!x.begun && board_.all_arrived(sequence)))
        out.here.emplace_back(me.wake, sequence);
  }
  return out;
}

void shared_group::tell(const wakes& whom) const {
  for (const auto& [wake, sequence] : whom.here) (*wake)(sequence);
  for (const uint32_t other : whom.elsewhere) ring_(other);
}

void shared_group::look() {
  if (wrong_) return;
  std::unique_lock lock(mutex_);
  if (board_.failure()) stop_.store(true, std::memory_order_relaxed);
  wakes whom = due();
  lock.unlock();
  whom.elsewhere.clear();
  tell(whom);
}

core::error shared_group::end_with(std::unique_lock<std::mutex>& lock, uint32_t rank, const core::error& why) {
  const bool ended_before = board_.failure().has_value();
  core::error agreed = board_.fail(rank, why);
  stop_.store(true, std::memory_order_relaxed);
  wakes whom;
  if (!ended_before) whom = due();
  lock.unlock();
  tell(whom);
  return agreed;
}

/// Returns the sequence of the first operation posted by `me` of which some member has not done its part. If there is
/// none, returns the sequence that `me` posts next.
uint64_t shared_group::oldest_unfinished(const local& me) const {
  for (const auto& [sequence, x] : me.unfinished)
    if (!board_.all_finished(sequence)) return sequence;
  return me.next;
}

core::result<void> shared_group::book(uint32_t rank, const request& r) {
  local& me = here_.at(rank);
  const std::string who = name_of(rank);
  if (r.id.sequence != me.next) return core::fail(out_of_turn(who, r, me.next));
  const uint64_t oldest = oldest_unfinished(me);
  if (me.next - oldest >= board_.shape().operations)
    return core::fail(too_far_ahead(who, r, board_.shape().operations, oldest));
  auto sound = check_presence(r, rank);
  if (sound) sound = check_request(r, board_.shape().members);
  if (!sound) return core::fail(unsound(who, r, sound.error()));
  assert(check_memory(r, rank) && check_outputs(r.op, r.pieces, board_.shape().members));
  const auto input = space_->locate(r.input);
  const auto output = space_->locate(r.output);
  if (!input || !output)
    return core::fail(
        unsound(who, r, {core::error_kind::bug, "its input or output is not in memory that processes share"}));
  board_.arrive(rank, me.next, arrival::of(r, *input, *output));
  me.unfinished[me.next++] = {r};
  return {};
}

/// Checks that all members that have posted operation `sequence` posted the same one as `rank`. Called when `rank`
/// posts, and again before it begins its part of the work, because by then all members have arrived.
core::result<void> shared_group::agreed(uint32_t rank, uint64_t sequence) const {
  const arrival& mine = board_.said(rank, sequence);
  for (uint32_t other = 0; other < board_.shape().members; ++other) {
    if (other == rank || !board_.has_arrived(other, sequence)) continue;
    const arrival& theirs = board_.said(other, sequence);
    if (const auto differs = difference(theirs, mine, sequence))
      return core::fail(
          mismatch(name_of(rank), mine.as_request(sequence), name_of(other), theirs.as_request(sequence), *differs));
  }
  return {};
}

core::result<void> shared_group::post(uint32_t rank, const request& r) {
  std::unique_lock lock(mutex_);
  if (const auto why = board_.failure()) return core::fail(*why);
  auto booked = book(rank, r);
  if (booked) booked = agreed(rank, r.id.sequence);
  if (!booked) return core::fail(end_with(lock, rank, booked.error()));
  if (!board_.all_arrived(r.id.sequence)) return {};
  wakes whom = due();
  std::erase_if(whom.here, [&](const auto& x) { return x.first == here_.at(rank).wake; });
  lock.unlock();
  tell(whom);
  return {};
}

core::result<progress> shared_group::finish(std::unique_lock<std::mutex>& lock, uint32_t rank, uint64_t sequence) {
  board_.finish(rank, sequence);
  if (!board_.all_finished(sequence)) return progress::pending;
  here_.at(rank).unfinished.erase(sequence);
  const wakes whom = due();
  lock.unlock();
  tell(whom);
  return progress::done;
}

core::result<progress> shared_group::advance(uint32_t rank, uint64_t sequence) {
  std::unique_lock lock(mutex_);
  local& me = here_.at(rank);
  const auto why = board_.failure();
  if (sequence >= me.next) return core::fail(why ? *why : not_posted(name_of(rank), sequence, me.next));
  const auto found = me.unfinished.find(sequence);
  if (found == me.unfinished.end()) return progress::done;
  if (board_.all_finished(sequence)) {
    me.unfinished.erase(found);
    return progress::done;
  }
  if (why) return core::fail(*why);
  if (found->second.begun || !board_.all_arrived(sequence)) return progress::pending;
  if (const auto same = agreed(rank, sequence); !same) return core::fail(end_with(lock, rank, same.error()));

  found->second.begun = true;
  const request posted = found->second.posted;
  std::vector<member_memory> memory(board_.shape().members);
  for (uint32_t m = 0; m < memory.size(); ++m) {
    const arrival& x = board_.said(m, sequence);
    memory[m] = {space_->at(x.input), space_->at(x.output)};
  }
  ++moving_;
  lock.unlock();
  // Inputs of other members may be read without the lock: each member wrote its input before it arrived, and must not
  // change it until all members have finished.
  const auto moved = do_share(device_, posted, memory, rank, stop_);
  lock.lock();
  --moving_;
  moved_.notify_all();
  if (!moved) return core::fail(end_with(lock, rank, moved.error()));
  if (stop_.load(std::memory_order_relaxed)) return core::fail(*board_.failure());
  return finish(lock, rank, sequence);
}

std::vector<uint32_t> shared_group::missing(uint32_t /*rank*/, uint64_t sequence) const {
  std::vector<uint32_t> out;
  for (uint32_t m = 0; m < board_.shape().members; ++m)
    if (!board_.has_arrived(m, sequence)) out.push_back(m);
  if (!out.empty()) return out;
  for (uint32_t m = 0; m < board_.shape().members; ++m)
    if (!board_.has_finished(m, sequence)) out.push_back(m);
  return out;
}

void shared_group::abort(uint32_t rank, const core::error& why) {
  std::unique_lock lock(mutex_);
  end_with(lock, rank, why);
}

/// Returns the error with which the communicator ends when member `rank` is destroyed. The error names the oldest
/// operation that some member has posted and some member has not done.
core::error shared_group::lost(uint32_t rank) const {
  std::string text = name_of(rank) + (ranks_.empty() ? fmt::format(" of {}", board_.shape().members) : "") + " ended";
  const local& me = here_.at(rank);
  const uint64_t sequence = oldest_unfinished(me);
  for (uint32_t m = 0; m < board_.shape().members; ++m)
    if (board_.has_arrived(m, sequence)) {
      const request r = board_.said(m, sequence).as_request(sequence);
      return {core::error_kind::peer_lost, text + " before all had done " + describe(r.id, r.op)};
    }
  return {core::error_kind::peer_lost, text};
}

void shared_group::leave(uint32_t rank) {
  std::unique_lock lock(mutex_);
  end_with(lock, rank, lost(rank));
  lock.lock();
  here_.erase(rank);
  moved_.wait(lock, [this] { return moving_ == 0; });
}

}  // namespace troupe::fabric
