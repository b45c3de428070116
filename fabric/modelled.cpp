#include "fabric/modelled.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fabric/layout.hpp"
#include "fabric/sentences.hpp"

namespace troupe::fabric {
namespace {

bool has_memory(const member_memory& m) { return m.input != nullptr || m.output != nullptr; }

}  // namespace

std::shared_ptr<modelled_group> modelled_group::make(uint32_t size, linear_link link, virtual_time time,
                                                     std::vector<uint32_t> ranks,
                                                     const std::vector<uint32_t>& acted_by) {
  const bool has_clock = time.now_ns && time.schedule;
  const bool moves = link.bytes_per_second > 0 && link.latency_us >= 0 && std::isfinite(link.latency_us);
  std::shared_ptr<modelled_group> out(new modelled_group(size, link, std::move(time), std::move(ranks)));
  if (!out->wrong_ && !(has_clock && moves))
    out->wrong_ = core::error{core::error_kind::bad_input,
                              has_clock ? "a link of more than 0 bytes a second and a finite latency was wanted"
                                        : "a clock with both of its functions was wanted"};
  if (!out->wrong_) out->divide(acted_by);
  return out;
}

void modelled_group::divide(const std::vector<uint32_t>& acted_by) {
  for (uint32_t member = 0; member < size(); ++member)
    if (acted_by.empty() || (member < acted_by.size() && acted_by[member] == member)) acting_.push_back(member);
  if (acted_by.empty()) return;
  followers_.resize(size());
  for (uint32_t member = 0; member < size(); ++member) {
    const bool is_right =
        acted_by.size() == size() && acted_by[member] < size() && acted_by[acted_by[member]] == acted_by[member];
    if (!is_right) {
      wrong_ = core::error{core::error_kind::bad_input,
                           "for each member one that acts for it, and that acts for itself, was wanted"};
      return;
    }
    if (acted_by[member] != member) followers_[acted_by[member]].push_back(member);
  }
}

std::unique_ptr<communicator> modelled_group::join(uint32_t rank, waker wake) {
  const uint32_t size = rendezvous_.size();
  if (const auto why = wrong_ ? wrong_ : wrong_rank(rank, size, rank < size && joined_[rank]))
    return refused_member(rank, size, *why);
  joined_[rank] = true;
  wakers_[rank] = std::move(wake);
  return std::make_unique<member_of<modelled_group>>(shared_from_this(), rank);
}

void modelled_group::leave(uint32_t rank) {
  wakers_[rank] = nullptr;
  abort(rank, rendezvous_.lost(rank));
}

void modelled_group::abort(uint32_t rank, const core::error& why) {
  for (const auto& [other, sequence] : rendezvous_.fail(why))
    if (other != rank && wakers_[other]) wakers_[other](sequence);
}

core::result<void> modelled_group::post(uint32_t rank, const request& r) {
  core::result<void> sound;
  if (has_memory({r.input, r.output})) sound = check_presence(r, rank);
  if (!sound) sound = core::fail(unsound(rendezvous_.name_of(rank), r, sound.error()));
  auto arrived = sound ? rendezvous_.arrive(rank, r) : core::fail(sound.error());
  if (!arrived) {
    const core::error why = rendezvous_.failure().value_or(arrived.error());
    abort(rank, why);
    return core::fail(why);
  }
  posted_operation& m = **arrived;
  if (!followers_.empty())
    for (const uint32_t other : followers_[rank]) rendezvous_.follow(other, rank);
  if (m.arrived < rendezvous_.size()) return {};
  const int64_t now = time_.now_ns();
  const int64_t duration_ns =
      time_.duration_ns ? time_.duration_ns(m.shared) : link_.duration_ns(received_bytes(m.shared, rendezvous_.size()));
  int64_t begin_ns = std::max({now, link_free_ns_, held_until_ns_});
  if (time_.begin_ns && begin_ns != INT64_MAX) begin_ns = time_.begin_ns(begin_ns, duration_ns);
  m.ready_ns = begin_ns == INT64_MAX ? INT64_MAX : begin_ns + duration_ns;
  link_free_ns_ = m.ready_ns;
  while (!moving_.empty() && is_done(moving_.front())) moving_.pop_front();
  moving_.push_back(r.id.sequence);
  if (m.ready_ns == INT64_MAX) return {};  // the link is cut for ever
  for (const uint32_t other : acting_) time_.schedule(m.ready_ns - now, other, r.id.sequence);
  return {};
}

bool modelled_group::is_done(uint64_t sequence) {
  const auto found = rendezvous_.find(0, sequence);
  return found && *found == nullptr;
}

void modelled_group::hold(int64_t until_ns) {
  const int64_t now = time_.now_ns(), from_ns = std::max(now, held_until_ns_);
  if (until_ns <= from_ns) return;
  const auto later = [&](int64_t ns) { return until_ns == INT64_MAX ? INT64_MAX : ns + (until_ns - from_ns); };
  std::deque<uint64_t> still;
  for (const uint64_t sequence : moving_) {
    const auto found = rendezvous_.find(0, sequence);
    if (!found || *found == nullptr || (*found)->ready_ns <= now) continue;
    posted_operation& m = **found;
    still.push_back(sequence);
    m.ready_ns = later(m.ready_ns);
    link_free_ns_ = std::max(link_free_ns_, m.ready_ns);
    if (m.ready_ns == INT64_MAX) continue;
    for (const uint32_t rank : acting_) time_.schedule(m.ready_ns - now, rank, sequence);
  }
  moving_ = std::move(still);
  held_until_ns_ = until_ns;
}

core::result<progress> modelled_group::advance(uint32_t rank, uint64_t sequence) {
  TROUPE_ASSIGN(const auto found, rendezvous_.find(rank, sequence));
  if (found == nullptr) return progress::done;
  posted_operation& m = *found;
  if (m.arrived < rendezvous_.size() || time_.now_ns() < m.ready_ns) return progress::pending;
  if (m.bytes <= modelled_move_bytes_max && std::all_of(m.memory.begin(), m.memory.end(), has_memory)) {
    const std::atomic<bool> never = false;
    for (uint32_t r = 0; r < rendezvous_.size(); ++r) TROUPE_TRY(do_share({}, m.shared, m.memory, r, never));
  }
  for (uint32_t r = 0; r < rendezvous_.size(); ++r) rendezvous_.finish(sequence, r);
  return progress::done;
}

}  // namespace troupe::fabric
