#include "fabric/wire/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "fabric/layout.hpp"
#include "fabric/refused_member.hpp"
#include "fabric/sentences.hpp"

namespace troupe::fabric {
namespace {

constexpr uint32_t nobody = ~uint32_t{0};

uint32_t machine_of_place(const homes& where, uint32_t place) {
  for (uint32_t m = 0; m < where.size(); ++m)
    if (where.place_of(m) == place) return where.machine_of(m);
  return 0;  // not reached: check_setting refuses a place without members
}

core::result<void> check_setting(const wire_setting& s) {
  if (const auto wrong = wrong_size(s.shape.members, s.ranks)) return core::fail(*wrong);
  const auto lacks = [](const std::string& what) {
    return core::refused("a communicator over several machines: wanted " + what);
  };
  if (s.where.size() != s.shape.members)
    return lacks(fmt::format("the homes of its {} members, got {}", s.shape.members, s.where.size()));
  bool is_here = false;
  for (uint32_t m = 0; m < s.where.size(); ++m) is_here = is_here || s.where.place_of(m) == s.place;
  if (!is_here) return lacks(fmt::format("a member in this process, {}, got none", s.place));
  TROUPE_TRY(board::check(s.memory, s.shape));
  if (const uint64_t bytes = machine_record::bytes_of(s.shape); s.memory.size() < bytes)
    return lacks(fmt::format("{} bytes of memory, got {}", bytes, s.memory.size()));
  if (s.space == nullptr) return lacks("the segments that processes share, got none");
  if (!s.ring) return lacks("a function that wakes the other processes, got none");
  if (s.mover == nullptr || s.notes == nullptr) return lacks("a mover of bytes and notes to other machines, got none");
  return {};
}

}  // namespace

/// State of a member of the communicator that is a rank of this process.
struct wire_group::local {
  struct operation_here {
    request posted;
    /// True if this process refused the request: the operation never begins. It fails when an ending is in force, with
    /// the reason that is the same for all members.
    bool refused = false;
  };
  std::shared_ptr<const waker> wake;
  uint64_t next = 0;   ///< sequence number of the operation that this member posts next
  uint64_t begun = 0;  ///< sequence number of the first operation that this member has not begun
  /// [sequence]: operations whose end has not been reported to this member
  std::map<uint64_t, operation_here> unfinished;
  std::unique_ptr<member_work> work;  ///< used by the member's thread while `works`, else under the lock
  bool works = false;                 ///< true while the member works without the lock
};

wire_group::wire_group(wire_setting s)
    : setting_(std::move(s)),
      links_(std::make_shared<const wire_links>(
          wire_links{setting_.where, setting_.communicator, setting_.mover, setting_.limits})),
      machine_(machine_of_place(setting_.where, setting_.place)),
      record_(setting_.memory, setting_.shape, setting_.where, machine_) {
  if (setting_.where.carrier(machine_) == setting_.place)
    carrier_.emplace(setting_.where, machine_, setting_.communicator, setting_.mover);
}

core::result<std::shared_ptr<wire_group>> wire_group::make(wire_setting s) {
  TROUPE_TRY(check_setting(s));
  TROUPE_TRY(check_limits(s.limits, s.shape.members));
  std::shared_ptr<wire_group> out(new wire_group(std::move(s)));
  if (out->carrier_)
    out->setting_.notes->add(out->setting_.communicator,
                             [to = std::weak_ptr(out)](uint32_t from, std::string_view text) {
                               if (const auto alive = to.lock()) alive->hear(from, text);
                             });
  return out;
}

std::unique_ptr<communicator> wire_group::join(uint32_t rank, waker wake) {
  const std::lock_guard lock(mutex_);
  const uint32_t size = setting_.where.size();
  auto wrong = wrong_rank(rank, size, here_.contains(rank));
  if (!wrong && setting_.where.place_of(rank) != setting_.place)
    wrong = core::error{core::error_kind::bad_input, fmt::format("member {} belongs to process {}, not in this one, {}",
                                                                 rank, setting_.where.place_of(rank), setting_.place)};
  if (wrong) return refused_member(rank, size, *wrong);
  local& me = here_[rank];
  me.wake = wake ? std::make_shared<const waker>(std::move(wake)) : nullptr;
  me.work = std::make_unique<member_work>(links_, rank, record_.sent, std::make_shared<transfer_ends>(me.wake));
  return std::make_unique<member_of<wire_group>>(shared_from_this(), rank);
}

std::string wire_group::name_of(uint32_t rank) const {
  return fmt::format("rank {}", setting_.ranks.empty() ? rank : setting_.ranks[rank]);
}

uint64_t wire_group::most_staged_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t out = most_staged_bytes_;
  for (const auto& [rank, me] : here_) out += me.work->most_staged_bytes();
  return out;
}

/// Returns why `sequence` fails for `me`, or nothing. An operation that this process refused never begins, so any
/// ending fails it, whatever its sequence.
std::optional<core::error> wire_group::failure_of(const local& me, uint64_t sequence) const {
  const auto found = me.unfinished.find(sequence);
  return record_.ended.failure_of(found != me.unfinished.end() && found->second.refused ? ~uint64_t{0} : sequence);
}

/// Returns the members to wake: members of this process that can do something now, and all members of this machine's
/// other processes, because this process does not know which of the latter have something to do.
wire_group::wakes wire_group::due() const {
  wakes out;
  for (uint32_t m = record_.first; m < record_.first + record_.count; ++m)
    if (setting_.where.place_of(m) != setting_.place) out.elsewhere.push_back(m);
  for (const auto& [rank, me] : here_) {
    if (!me.wake) continue;
    for (const auto& [sequence, x] : me.unfinished)
      if (failure_of(me, sequence) || (!x.refused && record_.is_done(sequence)) || me.work->waits_for_neighbours() ||
          (sequence >= me.begun && !x.refused && record_.arrivals.all_arrived(sequence)))
        out.here.emplace_back(me.wake, sequence);
  }
  return out;
}

void wire_group::tell_all(std::unique_lock<std::mutex>& lock, uint32_t but, std::optional<uint64_t> its_sequence) {
  carry();
  wakes whom = due();
  const auto own = here_.find(but);
  if (own != here_.end())
    std::erase_if(whom.here, [&](const auto& x) {
      return x.first == own->second.wake && (!its_sequence || x.second == *its_sequence);
    });
  lock.unlock();
  for (const auto& [wake, sequence] : whom.here) (*wake)(sequence);
  for (const uint32_t other : whom.elsewhere) setting_.ring(other);
}

/// If this process represents its machine, sends the posted requests and endings of the machine's members to the other
/// machines, and writes requests and endings received from them into the shared record. If a request differs from
/// another member's, ends the communicator in the name of the machine's first member. Returns true if requests were
/// written, so that processes of this machine may have work.
bool wire_group::carry() {
  if (!carrier_) return false;
  const auto admitted = carrier_->admit(record_);
  for (const auto& [other, sequence] : admitted)
    if (const auto same = agreed(other, sequence); !same) say(record_.first, same.error(), false);
  carrier_->tell(record_);
  return !admitted.empty();
}

void wire_group::hear(uint32_t from, std::string_view text) {
  std::unique_lock lock(mutex_);
  if (const auto did = carrier_->hear(record_, from, text); !did) say(record_.first, did.error(), false);
  tell_all(lock, nobody, std::nullopt);
}

void wire_group::look() {
  std::unique_lock lock(mutex_);
  const bool news = carry();
  const wakes whom = due();
  lock.unlock();
  for (const auto& [wake, sequence] : whom.here) (*wake)(sequence);
  for (const uint32_t other : whom.elsewhere)
    if (news) setting_.ring(other);
}

uint64_t wire_group::oldest_unfinished() {
  while (record_.is_done(oldest_)) ++oldest_;
  return oldest_;
}

/// Ends the communicator for `rank`. An ending of a member of the first machine, or one because of a lost link
/// (`at_once`), is in force at once; all others come into force when the first machine has received them.
void wire_group::say(uint32_t rank, const core::error& why, bool at_once) {
  record_.ended.say(rank, {oldest_unfinished(), why});
  if (at_once || machine_ == 0) record_.ended.enforce(rank);
}

core::result<void> wire_group::book(uint32_t rank, const request& r) {
  local& me = here_.at(rank);
  const std::string who = name_of(rank);
  if (r.id.sequence != me.next) return core::fail(out_of_turn(who, r, me.next));
  if (me.next - oldest_unfinished() >= setting_.shape.operations)
    return core::fail(too_far_ahead(who, r, setting_.shape.operations, oldest_));
  auto sound = check_presence(r, rank);
  if (sound) sound = check_request(r, setting_.shape.members);
  if (!sound) return core::fail(unsound(who, r, sound.error()));
  assert(check_memory(r, rank) && check_outputs(r.op, r.pieces, setting_.shape.members));
  const auto input = setting_.space->locate(r.input);
  const auto output = setting_.space->locate(r.output);
  if (!input || !output)
    return core::fail(
        unsound(who, r, {core::error_kind::bug, "its input or output is not in memory that processes share"}));
  record_.arrivals.arrive(rank, me.next, arrival::of(r, *input, *output));
  me.unfinished[me.next++] = {r};
  return {};
}

/// Checks that all members that have posted operation `sequence` posted the same one as `rank`. Called when `rank`
/// posts, and again before it begins the operation, because by then all members have arrived.
core::result<void> wire_group::agreed(uint32_t rank, uint64_t sequence) const {
  const board& all = record_.arrivals;
  const arrival& mine = all.said(rank, sequence);
  for (uint32_t other = 0; other < setting_.shape.members; ++other) {
    if (other == rank || !all.has_arrived(other, sequence)) continue;
    const arrival& theirs = all.said(other, sequence);
    if (const auto differs = difference(theirs, mine, sequence))
      return core::fail(
          mismatch(name_of(rank), mine.as_request(sequence), name_of(other), theirs.as_request(sequence), *differs));
  }
  return {};
}

core::result<void> wire_group::post(uint32_t rank, const request& r) {
  std::unique_lock lock(mutex_);
  local& me = here_.at(rank);
  if (const auto why = record_.ended.failure_of(me.next)) return core::fail(*why);
  auto booked = book(rank, r);
  if (booked) booked = agreed(rank, r.id.sequence);
  if (!booked) {
    say(rank, booked.error(), false);
    const auto why = record_.ended.failure_of(~uint64_t{0});
    if (!why) me.unfinished[r.id.sequence] = {.posted = r, .refused = true};
    tell_all(lock, rank, r.id.sequence);
    if (why) return core::fail(*why);
    return {};
  }
  if (carry() || record_.arrivals.all_arrived(r.id.sequence)) {
    tell_all(lock, rank, r.id.sequence);
    return {};
  }
  lock.unlock();
  if (!carrier_) setting_.ring(record_.first);
  return {};
}

/// Returns the operations that `rank` can begin: the operations that all members have posted, in order, with the
/// addresses of this machine's operands.
std::vector<std::pair<request, std::vector<member_memory>>> wire_group::take_ready(uint32_t rank) {
  std::vector<std::pair<request, std::vector<member_memory>>> out;
  local& me = here_.at(rank);
  while (me.begun < me.next && record_.arrivals.all_arrived(me.begun) && !record_.ended.failure_of(me.begun)) {
    auto& x = me.unfinished.at(me.begun);
    if (x.refused) break;
    if (const auto same = agreed(rank, me.begun); !same) {
      say(rank, same.error(), false);
      x.refused = true;
      break;
    }
    std::vector<member_memory> memory(setting_.shape.members);
    for (uint32_t m = record_.first; m < record_.first + record_.count; ++m) {
      const arrival& said = record_.arrivals.said(m, me.begun);
      memory[m] = {setting_.space->at(said.input), setting_.space->at(said.output)};
    }
    out.emplace_back(x.posted, std::move(memory));
    ++me.begun;
  }
  return out;
}

void wire_group::finish(uint32_t rank, const member_work::outcome& worked) {
  for (const uint64_t sequence : worked.finished) record_.arrivals.finish(rank, sequence);
  if (worked.failed) say(rank, lost_link(rank, *worked.failed), true);
}

core::result<progress> wire_group::advance(uint32_t rank, uint64_t sequence) {
  std::unique_lock lock(mutex_);
  local& me = here_.at(rank);
  if (sequence >= me.next && !me.unfinished.contains(sequence))
    return core::fail(record_.ended.failure_of(sequence).value_or(not_posted(name_of(rank), sequence, me.next)));
  auto ready = take_ready(rank);
  ++working_;
  me.works = true;
  lock.unlock();
  // Inputs of other members of this machine may be read without the lock: each member wrote its input before it
  // arrived, and must not change it until all members of the machine are done.
  for (auto& [r, memory] : ready) me.work->begin(r, std::move(memory));
  const auto worked =
      me.work->go_on([this](uint64_t x) { return record_.ended.in_force(0) && record_.ended.failure_of(x); });
  std::vector<uint32_t> waiting;
  for (uint32_t m = record_.first; worked.has_sent && m < record_.first + record_.count; ++m)
    if (record_.sent.take_waiting(m)) waiting.push_back(m);
  lock.lock();
  --working_;
  me.works = false;
  moved_.notify_all();
  finish(rank, worked);

  core::result<progress> out = progress::pending;
  const auto found = me.unfinished.find(sequence);
  const bool refused = found != me.unfinished.end() && found->second.refused;
  if (found == me.unfinished.end() || (!refused && record_.is_done(sequence))) {
    if (found != me.unfinished.end()) me.unfinished.erase(found);
    out = progress::done;
  } else if (const auto why = failure_of(me, sequence)) {
    out = core::fail(*why);
  }
  if (!worked.finished.empty() || worked.failed || refused || !waiting.empty())
    tell_all(lock, !out || *out == progress::done ? rank : nobody, sequence);
  return out;
}

std::vector<uint32_t> wire_group::not_arrived(uint64_t sequence) const {
  std::vector<uint32_t> out;
  for (uint32_t m = 0; m < setting_.shape.members; ++m)
    if (!record_.arrivals.has_arrived(m, sequence)) out.push_back(m);
  return out;
}

std::vector<uint32_t> wire_group::missing(uint32_t rank, uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  if (sequence < oldest_ || record_.is_done(sequence)) return {};
  std::vector<uint32_t> out = not_arrived(sequence);
  if (!out.empty()) return out;
  out = awaited(rank, sequence);
  // If this member waits for members of other machines, only it and those are returned: other members of this machine
  // that are not done may wait for other machines as well.
  if (!out.empty()) {
    out.insert(std::ranges::lower_bound(out, rank), rank);
    return out;
  }
  for (uint32_t m = record_.first; m < record_.first + record_.count; ++m)
    if (!record_.arrivals.has_finished(m, sequence)) out.push_back(m);
  return out;
}

/// Returns the members of other machines to or from which `rank` has unfinished transfers of operation `sequence`.
/// Returns an empty list while `rank` works without the lock, because its list of transfers must not be read meanwhile.
std::vector<uint32_t> wire_group::awaited(uint32_t rank, uint64_t sequence) const {
  const local& me = here_.at(rank);
  return me.works ? std::vector<uint32_t>{} : me.work->awaited(sequence);
}

void wire_group::abort(uint32_t rank, const core::error& why) {
  std::unique_lock lock(mutex_);
  say(rank, why, false);
  tell_all(lock, rank, std::nullopt);
}

/// Returns the error with which the communicator ends when member `rank` is destroyed. The error names the oldest
/// operation that some member has posted and some member of this machine has not done.
core::error wire_group::lost(uint32_t rank) {
  const uint32_t size = setting_.shape.members;
  std::string text = name_of(rank) + (setting_.ranks.empty() ? fmt::format(" of {}", size) : "") + " ended";
  const uint64_t sequence = oldest_unfinished();
  for (uint32_t m = 0; m < size; ++m)
    if (record_.arrivals.has_arrived(m, sequence)) {
      const request r = record_.arrivals.said(m, sequence).as_request(sequence);
      text += " before all had done " + describe(r.id, r.op);
      break;
    }
  return {core::error_kind::peer_lost, text};
}

core::error wire_group::lost_link(uint32_t rank, const member_work::failed_transfer& failed) const {
  const request& r = here_.at(rank).unfinished.at(failed.sequence).posted;
  return failed.why.in(describe(r.id, r.op) + " waits for " + name_of(failed.peer));
}

void wire_group::end(const core::error& why) {
  std::unique_lock lock(mutex_);
  core::error named = why;
  uint32_t speaker = nobody;
  for (uint32_t m = record_.first; m < record_.first + record_.count; ++m)
    if (setting_.where.place_of(m) == setting_.place && (speaker == nobody || record_.ended.said(speaker))) speaker = m;
  if (const auto me = here_.find(speaker); me != here_.end() && me->second.unfinished.contains(oldest_unfinished())) {
    const request& r = me->second.unfinished.at(oldest_).posted;
    auto whom = not_arrived(oldest_);
    std::erase_if(whom, [&](uint32_t m) { return record_.is_here(m); });
    if (whom.empty()) whom = awaited(speaker, oldest_);
    std::string missing;
    for (const uint32_t m : whom) missing += (missing.empty() ? " waits for " : ", ") + name_of(m);
    named = why.in(describe(r.id, r.op) + missing);
  }
  say(speaker, named, true);
  tell_all(lock, nobody, std::nullopt);
}

void wire_group::leave(uint32_t rank) {
  std::unique_lock lock(mutex_);
  say(rank, lost(rank), false);
  tell_all(lock, rank, std::nullopt);
  lock.lock();
  most_staged_bytes_ += here_.at(rank).work->most_staged_bytes();
  here_.erase(rank);
  moved_.wait(lock, [this] { return working_ == 0; });
}

}  // namespace troupe::fabric
