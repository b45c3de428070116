#include "plan/write/exchanges.hpp"

#include "plan/group_exchange.hpp"

namespace troupe::plan {

void exchange_writer::read(handle x, const place& at) {
  const auto found = waiting_.find(at);
  if (found == waiting_.end()) return;
  const uint32_t slot = d_.at(found->second).slots.moved;
  d_.at(x).slots.arrived = slot;
  d_.depend(x, found->second);
  d_.buffer(slot).last = x;
  read_.push_back(slot);  // instructions after `x` may reuse the slot; a slot that `x` opens may not
  waiting_.erase(found);
}

// Ends the lifetimes of slots that were read before `x`; later instructions may reuse their bytes.
void exchange_writer::give_back(handle x) {
  for (const uint32_t slot : read_) d_.buffer(slot).free_from = x;
  read_.clear();
}

handle exchange_writer::exchange(handle x, const place& at) {
  const operation o = d_.at(x);
  const group_exchange what = exchange_of(l_, o.subject, o.segment, std::get<2>(at));
  const bool gathers_loss = what.op == core::exchange_op::gather && p_.options().mode == mode::generate;
  if (what.ranks == 1 || gathers_loss) return none;
  const bool begins = o.piece == 0;
  const handle before = begins ? none : waiting_.at(at);
  const uint32_t slot = begins ? d_.open(x, pool::transfers, what.slot_bytes(), o.subject) : d_.at(before).slots.moved;
  const handle e = d_.append(kind::exchange, o.subject, o.micro);
  operation& made = d_.at(e);
  made.segment = o.segment;
  made.use = std::get<2>(at);
  made.repeats = std::get<3>(at);
  made.slots.moved = slot;
  made.piece = o.piece;
  made.moved_bytes = made.repeats == repetition::recompute ? what.all_bytes() : what.bytes_of(o.piece);
  d_.at(x).slots.leaving = slot;
  d_.depend(e, x);
  // each piece's exchange waits for the exchange of the previous piece, so that an instruction that waits for the
  // last waits for all
  d_.depend(e, before);
  d_.buffer(slot).last = e;
  waiting_[at] = e;
  return e;
}

handle exchange_writer::computed(handle x) {
  const operation o = d_.at(x);
  const place at{l_.stage_of_unit[o.subject], o.micro, way_of(o.use), repetition::none};
  // A multiply reads the slot that the forward of its segment has read, so no read is added here.
  if (o.kind == kind::multiply) return exchange(x, at);
  give_back(x);
  // A weight part reads the slot that the input part of its backward has read, which stays open until then.
  if (o.kind == kind::backward_weight) return none;
  read(x, at);
  return exchange(x, at);
}

void exchange_writer::recomputed(handle x) {
  give_back(x);
  const operation o = d_.at(x);
  const place at{l_.stage_of_unit[o.subject], o.micro, use::forward, repetition::recompute};
  read(x, at);
  if (o.segment + 1 < p_.table().units[o.subject].segments.size()) exchange(x, at);
}

void exchange_writer::leaves(handle exchanged) {
  const operation& e = d_.at(exchanged);
  waiting_.erase({l_.stage_of_unit[e.subject], e.micro, e.use, e.repeats});
}

}  // namespace troupe::plan
