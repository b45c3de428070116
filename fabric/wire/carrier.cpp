#include "fabric/wire/carrier.hpp"

#include <fmt/format.h>

#include <string>

namespace troupe::fabric {

carrier::carrier(const homes& where, uint32_t machine, uint64_t communicator, std::shared_ptr<byte_mover> mover)
    : where_(where),
      machine_(machine),
      communicator_(communicator),
      mover_(std::move(mover)),
      told_(where.size()),
      proposed_(where.size()),
      announced_(where.size()),
      due_(where.size()),
      next_(where.size()) {}

void carrier::tell_all(const wire_note& note) {
  const std::string text = text_of(communicator_, note);
  for (uint32_t k = 0; k < where_.machines(); ++k)
    if (k != machine_) mover_->note(where_.carrier(k), text);
}

void carrier::tell_ending(const machine_record& record, uint32_t member, wire_note::kind what) {
  const auto said = record.ended.said(member);
  const wire_note note{what, member, said->from, {}, said->why};
  if (what == wire_note::kind::ends)
    mover_->note(where_.carrier(0), text_of(communicator_, note));
  else
    tell_all(note);
}

void carrier::tell(const machine_record& record) {
  if (where_.machines() == 1) return;
  for (uint32_t m = record.first; m < record.first + record.count; ++m) {
    for (; record.arrivals.has_arrived(m, told_[m]); ++told_[m])
      tell_all({wire_note::kind::arrived, m, told_[m], record.arrivals.said(m, told_[m]), {}});
  }
  for (; const auto who = record.ended.in_force(enforced_told_); ++enforced_told_)
    if (decides() || (record.is_here(*who) && !announced_[*who])) tell_ending(record, *who, wire_note::kind::ended);
  for (uint32_t m = record.first; !decides() && m < record.first + record.count; ++m) {
    if (proposed_[m] || !record.ended.said(m) || record.ended.is_in_force(m)) continue;
    proposed_[m] = true;
    tell_ending(record, m, wire_note::kind::ends);
  }
}

core::result<void> carrier::hear(machine_record& record, uint32_t from, std::string_view text) {
  const auto note = note_of(text);
  const auto speaks_for = [&](uint32_t member) {
    return !record.is_here(member) && where_.carrier(where_.machine_of(member)) == from;
  };
  const auto is_carrier = [&] {
    for (uint32_t k = 0; k < where_.machines(); ++k)
      if (k != machine_ && where_.carrier(k) == from) return true;
    return false;
  };
  // Refuses notes of a sender that is too far ahead: a correct one has at most `shape().operations` unfinished
  // operations, because its own board has that number of slots.
  const auto is_next = [&](uint32_t member, uint64_t sequence) {
    return sequence == next_[member] + due_[member].size() && due_[member].size() <= record.arrivals.shape().operations;
  };
  const bool sound = note && note->member < where_.size() &&
                     (note->what == wire_note::kind::ended ? is_carrier() : speaks_for(note->member)) &&
                     (note->what != wire_note::kind::arrived || is_next(note->member, note->sequence));
  if (!sound)
    return core::fail(
        core::error_kind::mismatch,
        fmt::format("process {}: a note of its machine's members was wanted, got {} other bytes", from, text.size()));
  const uint32_t m = note->member;
  if (note->what == wire_note::kind::arrived) {
    due_[m].push_back(*note);
    return {};
  }
  if (!record.is_here(m)) record.ended.say(m, {note->sequence, note->why});
  if (note->what == wire_note::kind::ended) announced_[m] = true;
  if (record.ended.said(m) && (note->what == wire_note::kind::ended || decides())) record.ended.enforce(m);
  return {};
}

std::vector<carrier::admitted> carrier::admit(machine_record& record) {
  std::vector<admitted> out;
  const uint64_t room = record.arrivals.shape().operations;
  for (uint32_t m = 0; m < where_.size(); ++m) {
    auto& due = due_[m];
    // The slot of operation next_[m] may be overwritten when the operation that used it before, next_[m] - room, is
    // done on this machine: no process reads that arrival any more.
    for (; !due.empty() && (next_[m] < room || record.is_done(next_[m] - room)); due.pop_front(), ++next_[m]) {
      record.arrivals.arrive(m, next_[m], due.front().said);
      out.push_back({m, next_[m]});
    }
  }
  return out;
}

}  // namespace troupe::fabric
