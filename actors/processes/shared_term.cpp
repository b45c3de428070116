#include "actors/processes/shared_term.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "actors/processes/duplicate.hpp"
#include "core/math.hpp"

namespace troupe::actors {
namespace {

/// Numbers under which a process offers file descriptors to the processes of its machine: the memory of boards, the
/// first rank's segment, the first process's event (bell).
constexpr uint32_t boards_offer = 0, first_segment_offer = 1, first_bell_offer = 1U << 24;

constexpr uint64_t alignment_bytes = 64;

fabric::board_shape shape_of(const plan::communicator& c) {
  return {static_cast<uint32_t>(c.members.size()), static_cast<uint32_t>(fabric::operations_in_flight_max)};
}

/// True if the members of the communicator are on several machines.
bool spans_machines(const plan::communicator& c, const term_members& who) {
  return std::ranges::any_of(c.members,
                             [&](uint32_t r) { return who.machine_of(r) != who.machine_of(c.members.front()); });
}
/// True if the members of the communicator are in several processes.
bool crosses(const plan::communicator& c, const term_members& who) {
  return std::ranges::any_of(c.members, [&](uint32_t r) { return who.place_of(r) != who.place_of(c.members.front()); });
}

uint64_t record_bytes(const plan::communicator& c, const term_members& who) {
  const auto shape = shape_of(c);
  return spans_machines(c, who) ? fabric::machine_record::bytes_of(shape) : fabric::board::bytes_of(shape);
}

/// Offsets in shared memory of the communicators' boards. A board records which members have posted which collective. A
/// communicator within one process has no board; the ranks' pulses follow the last board.
struct boards_layout {
  std::vector<uint64_t> offset;
  uint64_t bytes = 0;
};
boards_layout boards_of(const plan::job_layout& layout, const term_members& who) {
  boards_layout out;
  for (const auto& c : layout.communicators) {
    out.offset.push_back(out.bytes);
    if (crosses(c, who)) out.bytes += core::round_up(record_bytes(c, who), alignment_bytes);
  }
  out.bytes += machine_pulses::bytes_of(static_cast<uint32_t>(who.here().size()));
  return out;
}

core::error system_error(const char* wanted) {
  return {core::error_kind::limit, std::string("processes: cannot create ") + wanted + ": " + std::strerror(errno)};
}

core::result<std::shared_ptr<storage::shared_memory>> mapped(const cluster::shared_descriptor& offered,
                                                             uint64_t bytes_min) {
  TROUPE_ASSIGN(const auto copy, duplicate(offered->number()));
  TROUPE_ASSIGN(auto memory, storage::shared_memory::open(copy));
  if (memory.bytes() < bytes_min)
    return core::fail(core::error_kind::mismatch,
                      fmt::format("processes: wanted a segment of {} bytes, got {}", bytes_min, memory.bytes()));
  return std::make_shared<storage::shared_memory>(std::move(memory));
}

}  // namespace

shared_term::shared_term(const term_members& who, uint64_t boards_bytes) : who_(who), boards_bytes_(boards_bytes) {}

shared_term::~shared_term() { stop({core::error_kind::stopped, "the term has ended"}); }

core::result<std::shared_ptr<shared_term>> shared_term::make(cluster::process& link, const term_members& who,
                                                             const plan::job_layout& layout,
                                                             const std::vector<uint64_t>& segment_bytes,
                                                             const std::string& secret, device::device_id device) {
  std::shared_ptr<shared_term> out(new shared_term(who, boards_of(layout, who).bytes));
  if (who.needs_wire()) {
    TROUPE_ASSIGN(auto wire, machine_wire::open(link, who, secret));
    out->wire_ = std::move(wire);
  }
  TROUPE_TRY(out->map(link, layout, segment_bytes, device));
  return out;
}

core::result<void> shared_term::offer_segments(cluster::process& link, const std::vector<uint64_t>& bytes) {
  const auto offer = [&link](uint32_t number, const storage::shared_memory& m) -> core::result<void> {
    TROUPE_ASSIGN(const auto copy, duplicate(m.descriptor()));
    return link.give(number, cluster::own(copy));
  };
  if (speaks_for_machine()) {
    TROUPE_ASSIGN(auto made, storage::shared_memory::create(boards_bytes_));
    boards_ = std::make_shared<storage::shared_memory>(std::move(made));
    TROUPE_TRY(offer(boards_offer, *boards_));
  }
  segments_.resize(bytes.size());
  for (uint32_t r = 0; r < bytes.size(); ++r) {
    if (!who_.is_here(r)) continue;
    auto made = storage::shared_memory::create(std::max<uint64_t>(bytes[r], 1));
    if (!made) return core::fail(made.error().in(fmt::format("rank {}", r)));
    segments_[r] = std::make_shared<storage::shared_memory>(std::move(*made));
    TROUPE_TRY(offer(first_segment_offer + r, *segments_[r]));
  }
  bell_ = cluster::own(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (bell_->number() < 0) return core::fail(system_error("an event"));
  return link.give(first_bell_offer + who_.place, bell_);
}

core::result<void> shared_term::map(cluster::process& link, const plan::job_layout& layout,
                                    const std::vector<uint64_t>& segment_bytes, device::device_id device) {
  TROUPE_TRY(offer_segments(link, segment_bytes));
  std::vector<uint32_t> wanted;
  if (!speaks_for_machine()) wanted.push_back(boards_offer);
  for (uint32_t r = 0; r < segments_.size(); ++r)
    if (!who_.is_here(r) && who_.is_near(r)) wanted.push_back(first_segment_offer + r);
  for (const auto& s : who_.seats)
    if (s.place != who_.place && s.machine == who_.machine()) wanted.push_back(first_bell_offer + s.place);
  TROUPE_ASSIGN(auto offered, link.take(wanted));
  for (const auto& [number, what] : offered) {
    if (number >= first_bell_offer) {
      bells_.emplace_back(number - first_bell_offer, what);
      continue;
    }
    auto& to = number == boards_offer ? boards_ : segments_[number - first_segment_offer];
    TROUPE_ASSIGN(auto got,
                  mapped(what, number == boards_offer ? boards_bytes_ : segment_bytes[number - first_segment_offer]));
    to = std::move(got);
  }
  for (uint32_t r = 0; r < segments_.size(); ++r) {
    if (segments_[r] == nullptr) continue;
    TROUPE_TRY(space_->add(r, {segments_[r]->data(), segments_[r]->bytes()}));
  }
  TROUPE_TRY(make_groups(layout, device));
  TROUPE_ASSIGN(auto watch, storage::event_watch::start());
  watch_ = std::move(watch);
  return watch_->add(bell_->number(), [this] { hear_bell(); });
}

core::result<void> shared_term::make_groups(const plan::job_layout& layout, device::device_id device) {
  const auto boards = boards_of(layout, who_);
  for (uint32_t c = 0; c < layout.communicators.size(); ++c) {
    const auto& x = layout.communicators[c];
    auto& to = groups_.emplace_back();
    if (std::ranges::none_of(x.members, [&](uint32_t r) { return who_.is_here(r); })) continue;
    if (!crosses(x, who_)) {
      to.within = fabric::in_process_group::make(static_cast<uint32_t>(x.members.size()), device, x.members);
      continue;
    }
    const auto shape = shape_of(x);
    const std::span<std::byte> memory(boards_->data() + boards.offset[c], record_bytes(x, who_));
    const auto ring_member = [this, members = x.members](uint32_t m) { ring(who_.place_of(members[m])); };
    if (!spans_machines(x, who_)) {
      to.across = fabric::shared_group::make(memory, shape, space_, ring_member, device, x.members);
      continue;
    }
    std::vector<fabric::home> where;
    for (const uint32_t r : x.members) where.push_back({who_.machine_of(r), who_.place_of(r)});
    TROUPE_ASSIGN(auto homes, fabric::homes::make(where));
    TROUPE_ASSIGN(auto group, fabric::wire_group::make({.memory = memory,
                                                        .shape = shape,
                                                        .where = std::move(homes),
                                                        .place = who_.place,
                                                        .communicator = c,
                                                        .space = space_,
                                                        .ring = ring_member,
                                                        .mover = wire_->mover(),
                                                        .notes = wire_->notes(),
                                                        .ranks = x.members}));
    to.between = std::move(group);
  }
  if (wire_ != nullptr)
    wire_->on_lost([self = weak_from_this()](const core::error& why) {
      const auto term = self.lock();
      if (term == nullptr) return;
      for (const auto& m : term->groups_)
        if (m.between) m.between->end(why);
    });
  return {};
}

void shared_term::ring(uint32_t place) const {
  const auto at = std::ranges::find(bells_, place, &std::pair<uint32_t, cluster::shared_descriptor>::first);
  if (at == bells_.end()) return;
  const uint64_t one = 1;
  (void)!::write(at->second->number(), &one, sizeof one);
}

void shared_term::hear_bell() {
  uint64_t count = 0;
  (void)!::read(bell_->number(), &count, sizeof count);
  watch_->resume(bell_->number());
  for (const auto& m : groups_) {
    if (m.across) m.across->look();
    if (m.between) m.between->look();
  }
}

shared_segment shared_term::segment_of(uint32_t rank) const {
  const auto& s = segments_[rank];
  if (s == nullptr) return {};
  return {{s->data(), s->bytes()}, s};
}

std::shared_ptr<fabric::communicator> shared_term::join(uint32_t communicator, uint32_t member, fabric::waker wake) {
  const auto& m = groups_[communicator];
  if (m.within) return m.within->join(member, std::move(wake));
  // The returned pointer also owns this object, so that the member's board stays mapped and events of other processes
  // can be signalled until the member has ended. The pointer has a reference counter of its own: this object owns
  // pulses that refer weakly to the member, and with a counter that the object and the member share, these weak
  // references would keep the counter allocated.
  struct seated {
    std::shared_ptr<shared_term> term;
    std::unique_ptr<fabric::communicator> member;
  };
  const auto out =
      std::make_shared<seated>(seated{shared_from_this(), m.between ? m.between->join(member, std::move(wake))
                                                                    : m.across->join(member, std::move(wake))});
  return {out, out->member.get()};
}

core::result<void> shared_term::show_pulses(const std::shared_ptr<pulse_board>& board, std::chrono::nanoseconds every) {
  pulses_ = board;
  const auto here = who_.here();
  const auto ranks = static_cast<uint32_t>(here.size());
  shown_.emplace(boards_->data() + boards_bytes_ - machine_pulses::bytes_of(ranks), ranks, boards_);
  shown_->show_on(*board, here);
  if (wire_ != nullptr && speaks_for_machine())
    wire_->on_pulses([self = weak_from_this()](std::string_view text) {
      if (const auto term = self.lock()) term->shown_->hear(text);
    });
  timer_ = cluster::own(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  constexpr int64_t ns_per_s = 1'000'000'000;
  const timespec period{every.count() / ns_per_s, every.count() % ns_per_s};
  const itimerspec times{period, period};
  if (timer_->number() < 0 || ::timerfd_settime(timer_->number(), 0, &times, nullptr) != 0)
    return core::fail(system_error("a timer"));
  return watch_->add(timer_->number(), [this] { write_pulses(); });
}

void shared_term::write_pulses() {
  uint64_t count = 0;
  (void)!::read(timer_->number(), &count, sizeof count);
  watch_->resume(timer_->number());
  const auto here = who_.here();
  shown_->write(*pulses_, here);
  if (wire_ == nullptr) return;
  const auto notes = machine_pulses::notes_of(*pulses_, here, fabric::note_bytes_max - 1);
  for (const uint32_t m : who_.machines())
    if (m != who_.machine())
      for (const auto& n : notes) wire_->send_pulses(who_.first_place_of(m), n);
}

bool shared_term::speaks_for_machine() const { return who_.first_place_of(who_.machine()) == who_.place; }

void shared_term::stop(const core::error& why) {
  if (wire_ != nullptr) wire_->stop(why);
  if (watch_ == nullptr) return;
  // Removes the callbacks, so that none runs when this object is destroyed. A running callback owns memberships of
  // communicators, and with them this object; as their last owner it would run the destructor on the callback thread,
  // where the destructor waits for that same thread.
  if (bell_) watch_->remove(bell_->number());
  if (timer_) watch_->remove(timer_->number());
}

}  // namespace troupe::actors
