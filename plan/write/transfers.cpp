#include "plan/write/transfers.hpp"

#include <set>
#include <utility>

namespace troupe::plan {
namespace {

/// Number of slots for activations that are being sent to the next stage, in steps that do not train.
constexpr uint32_t forward_slots = 2;

}  // namespace

transfer_writer::transfer_writer(draft& d, const rank_plan& p) : d_(d), p_(p), l_(*p.layout) {
  // Marks the first use of each action of the pipeline table. Here an action is the forward, the backward, or one of
  // the two parts of a split backward, of one stage and micro-batch. The uses of two actions may alternate.
  std::set<std::tuple<uint32_t, uint32_t, use>> begun;
  for (size_t i = 0; i < d.uses.size(); ++i) {
    const use part = d.uses[i].kind == use::weights ? use::weights : way_of(d.uses[i].kind);
    if (begun.emplace(l_.stage_of_unit[d.uses[i].unit], d.uses[i].micro, part).second) actions_.push_back(i);
  }
  if (num_stages(l_) == 1) return;
  await_neighbours();
  note_returns();
}

void transfer_writer::await_neighbours() {
  for (const auto& order : l_.options.pipeline.table.orders)
    for (const action& each : order)
      for_each_part(each, [&](const action& a) {
        const bool forward = a.type == action_type::forward;
        if (is_here(a.stage) || a.type == action_type::backward_weight) return;
        if (forward ? a.stage + 1 == num_stages(l_) : !returns_gradient(l_, a.stage)) return;
        if (!is_here(forward ? a.stage + 1 : a.stage - 1)) return;
        to_come_[{forward ? a.stage + 1 : a.stage, forward ? use::forward : use::backward}].push_back(a.micro);
      });
}

// Notes, for the boundaries that no gradient crosses, the forwards of this rank that come after the turn of earlier
// micro-batches to return their gradients. By that time of the schedule the next stage has read these micro-batches.
void transfer_writer::note_returns() {
  if (p_.options().mode != mode::train) return;
  std::map<uint32_t, std::vector<uint32_t>> returned;  // by stage: micro-batches whose turn is over
  for (const action& each : l_.options.pipeline.table.orders[l_.options.mesh.pipeline_at(p_.rank)])
    for_each_part(each, [&](const action& a) {
      if (a.stage + 1 == num_stages(l_) || returns_gradient(l_, a.stage + 1)) return;
      if (a.type == action_type::backward || a.type == action_type::backward_input)
        returned[a.stage].push_back(a.micro);
      if (a.type == action_type::forward)
        returned_before_[{a.stage + 1, a.micro, use::forward}] = std::exchange(returned[a.stage], {});
    });
}

bool transfer_writer::is_here(uint32_t stage) const {
  return pipeline_of_stage(l_, stage) == l_.options.mesh.pipeline_at(p_.rank);
}

void transfer_writer::begin(size_t i) {
  if (next_action_ == actions_.size() || actions_[next_action_] != i) return;
  ++next_action_;
  for (; asked_ < actions_.size() && asked_ <= next_action_; ++asked_) receive(d_.uses[actions_[asked_]]);
}

void transfer_writer::receive(const unit_use& u) {
  if (u.kind == use::weights) return;
  const uint32_t stage = l_.stage_of_unit[u.unit];
  const bool forward = u.kind == use::forward;
  if (forward ? stage == 0 : stage + 1 == num_stages(l_)) return;
  if (is_here(forward ? stage - 1 : stage + 1)) return;
  const crossing c{forward ? stage : stage + 1, u.micro, way_of(u.kind)};
  while (!slots_.contains(c)) receive_next(std::get<0>(c), std::get<2>(c));
}

// Adds the receive of the transfer that the neighbour sends next, even if another one is needed first. Both ends
// therefore have their transfers in one order.
void transfer_writer::receive_next(uint32_t later, use way) {
  auto& sent = to_come_.at({later, way});
  const crossing c{later, sent.front(), way};
  sent.pop_front();
  const uint32_t subject = way == use::forward ? first_computing(l_, later) : last_computing(l_, later - 1);
  const handle x = d_.append(kind::receive, subject, std::get<1>(c));
  const uint32_t buffer = d_.open(x, pool::transfers, bytes_of(c), subject);
  d_.at(x).use = way;
  d_.at(x).moved_bytes = bytes_of(c);
  d_.at(x).slots.moved = buffer;
  slots_[c] = {buffer, x};
}

// Makes `x` write data that cross a boundary into a slot, and adds the send to the neighbour. The slot is reused only
// when the neighbour has certainly read it, without a message: the slot of an activation when its gradient arrives. No
// instruction therefore waits for a send, and the only waits between ranks are those of the schedule, whatever the
// order in which the neighbour reads. In steps that do not train no gradient arrives: two slots alternate, and the
// computation waits for the send before the last. Stages run forward in one order on all ranks, so these waits never
// form a cycle. If no gradient arrives in training, because all units before the boundary are frozen, a forward reuses
// the slots whose gradients would have arrived before it, and waits for their sends; each of these waits follows from
// the order of the schedule, so they form no cycle either.
void transfer_writer::send(handle x, const crossing& c, handle exchanged) {
  const bool forward = std::get<2>(c) == use::forward;
  const uint32_t later = std::get<0>(c), subject = d_.at(x).subject, micro = d_.at(x).micro;
  if (p_.options().mode != mode::train && micro >= forward_slots)
    if (const auto sent = sent_.find({later, micro - forward_slots, use::forward}); sent != sent_.end())
      d_.buffer(sent->second).free_from = x;
  if (const auto earlier = returned_before_.find(c); earlier != returned_before_.end())
    for (const uint32_t m : earlier->second)
      if (const auto sent = sent_.find({later, m, use::forward}); sent != sent_.end())
        d_.buffer(sent->second).free_from = x;
  const bool done = exchanged == none;  // true: `x` itself completes the result
  const uint32_t buffer = done ? d_.open(x, pool::transfers, bytes_of(c), subject) : d_.at(exchanged).slots.moved;
  d_.at(x).slots.leaving = buffer;
  slots_[c] = {buffer, done ? x : exchanged};
  if (is_here(forward ? later : later - 1)) return;
  const handle s = d_.append(kind::send, subject, micro);
  d_.at(s).use = std::get<2>(c);
  d_.at(s).moved_bytes = bytes_of(c);
  d_.at(s).slots.moved = buffer;
  d_.depend(s, done ? x : exchanged);
  d_.buffer(buffer).last = s;
  if (forward) sent_[c] = buffer;
}

transfer_writer::slot& transfer_writer::take(handle x, const crossing& c) {
  slot& s = slots_.at(c);
  d_.at(x).slots.arrived = s.buffer;
  d_.depend(x, s.filled);
  return s;
}

// Makes `x` the last reader of `buffer`: slots that instructions after `x` open may reuse its bytes, a slot that `x`
// opens may not.
void transfer_writer::read_last(uint32_t buffer, handle x) {
  d_.buffer(buffer).last = x;
  read_.push_back(buffer);
}

bool transfer_writer::forward(handle x, uint32_t stage, uint32_t micro, handle exchanged) {
  const auto& o = d_.at(x);
  const bool last_segment = o.segment + 1 == p_.table().units[o.subject].segments.size();
  const uint32_t unit = o.subject, segment = o.segment;
  const bool is_first = unit == first_computing(l_, stage) || unit == first_forward(l_, stage);
  if (is_first && segment == 0 && stage > 0) {
    const slot& s = take(x, {stage, micro, use::forward});
    // If the unit has a backward, that reads the slot last. A unit of the teacher reads the slot before the model's.
    if (unit == first_computing(l_, stage) && !has_backward(l_, unit)) read_last(s.buffer, x);
  }
  if (unit != last_computing(l_, stage) || !last_segment || stage + 1 == num_stages(l_)) return false;
  send(x, {stage + 1, micro, use::forward}, exchanged);
  return true;
}

bool transfer_writer::reads_gradient(handle x, uint32_t stage) const {
  const uint32_t unit = d_.at(x).subject, segments = static_cast<uint32_t>(p_.table().units[unit].segments.size());
  return unit == last_computing(l_, stage) && d_.at(x).segment + 1 == segments && stage + 1 < num_stages(l_);
}

bool transfer_writer::backward(handle x, uint32_t stage, uint32_t micro, handle exchanged) {
  const uint32_t unit = d_.at(x).subject, segment = d_.at(x).segment;
  if (reads_gradient(x, stage)) {
    if (const auto sent = sent_.find({stage + 1, micro, use::forward}); sent != sent_.end())
      read_.push_back(sent->second);
    const uint32_t buffer = take(x, {stage + 1, micro, use::backward}).buffer;
    if (writes_gradients(d_.at(x).use)) read_last(buffer, x);  // else the weight part of `x` reads the slot last
  }
  if (unit != first_computing(l_, stage) || segment != 0 || stage == 0) return false;
  read_last(slots_.at({stage, micro, use::forward}).buffer, x);
  if (!returns_gradient(l_, stage)) return false;
  send(x, {stage, micro, use::backward}, exchanged);
  return true;
}

void transfer_writer::weight_part(handle x, uint32_t stage, uint32_t micro) {
  if (reads_gradient(x, stage)) read_last(take(x, {stage + 1, micro, use::backward}).buffer, x);
}

bool transfer_writer::computed(handle x, handle exchanged) {
  if (num_stages(l_) == 1) return false;
  for (const uint32_t buffer : read_) d_.buffer(buffer).free_from = x;
  read_.clear();
  const uint32_t stage = l_.stage_of_unit[d_.at(x).subject], micro = d_.at(x).micro;
  switch (d_.at(x).kind) {
    case kind::forward:
      return forward(x, stage, micro, exchanged);
    case kind::recompute:
      if (stage > 0 && d_.at(x).subject == first_computing(l_, stage)) (void)take(x, {stage, micro, use::forward});
      return false;
    case kind::backward:
      return backward(x, stage, micro, exchanged);
    case kind::backward_weight:
      weight_part(x, stage, micro);
      return false;
    default:
      return false;
  }
}

}  // namespace troupe::plan
