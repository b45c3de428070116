#include "plan/write/gradients.hpp"

#include <algorithm>

#include "plan/layout/ties.hpp"

namespace troupe::plan {

gradient_writer::gradient_writer(draft& d, const rank_plan& p)
    : d_(d),
      p_(p),
      open_(p.layout->buckets.size() * p.options().accumulation, none),
      missing_(open_.size(), 0),
      reduced_(p.layout->buckets.size(), none) {
  const auto writes = contributions(p.table());
  for (uint32_t q = 0; q < writes.size() && !open_.empty(); ++q)
    for (uint32_t m = 0; m < p.options().accumulation && !writes[q].empty(); ++m)
      missing_[place_of(p.layout->bucket_of[q], m)] += static_cast<uint32_t>(writes[q].size());
}

void gradient_writer::backward(handle x) {
  const uint32_t unit = d_.at(x).subject, segment = d_.at(x).segment, micro = d_.at(x).micro;
  if (!p_.options().overlap) d_.depend(x, last_reduce_);
  if (!writes_gradients(d_.at(x).use)) return;
  completed_.clear();
  for (const uint32_t q : p_.table().units[unit].segments[segment].parameters) {
    const uint32_t b = p_.layout->bucket_of[q];
    if (b == none) continue;  // a frozen parameter has no bucket
    if (open_for(b, micro) == none) open(x, b);
    d_.bucket_buffers[size_t{b} * p_.options().accumulation + micro] = open_for(b, micro);
    if (--missing_[place_of(b, micro)] == 0) completed_.push_back(b);
  }
  for (const uint32_t b : completed_) {
    reduce(b, x);
    if (micro == p_.layout->last_micro(b) && p_.layout->tie_of_bucket(b) == none) norm(b);
  }
}

// Opens a bucket's buffer. If reductions overlap with backward, one bucket may be in reduction while the next is
// filled.
void gradient_writer::open(handle x, uint32_t bucket) {
  const size_t reducing_max = p_.options().overlap ? 1 : 0;
  for (; reducing_.size() > reducing_max; reducing_.pop_front()) d_.buffer(reducing_.front()).free_from = x;
  open_for(bucket, d_.at(x).micro) = d_.open(
      x, pool::buckets, p_.layout->buckets[bucket].elements * core::size_of(p_.options().bucket_type()), bucket);
}

void gradient_writer::reduce(uint32_t bucket, handle writer) {
  const handle x = last_reduce_ = d_.append(kind::reduce, bucket, d_.at(writer).micro);
  d_.at(x).use = use::backward;
  uint32_t& buffer = open_for(bucket, d_.at(x).micro);
  d_.at(x).slots.gradients = buffer;
  d_.at(x).moved_bytes = p_.layout->buckets[bucket].numel * core::size_of(p_.options().types.communication);
  d_.depend(x, writer);
  d_.depend(x, reduced_[bucket]);  // the reduction adds to the bucket's sum, and collectives may end in any order
  reduced_[bucket] = x;
  d_.buffer(buffer).last = x;
  if (p_.options().buckets_stay()) return;
  reducing_.push_back(buffer);
  buffer = none;
}

void gradient_writer::norm(uint32_t bucket) {
  const handle x = d_.append(kind::norm, bucket, p_.options().accumulation - 1);
  d_.at(x).moved_bytes =
      p_.layout->buckets[bucket].numel * core::size_of(p_.options().types.accumulation) / p_.options().shards();
  d_.depend(x, reduced_[bucket]);
  if (p_.options().reduces_in_place()) d_.buffer(open_for(bucket, 0)).last = x;
  norms_.push_back(x);
}

void gradient_writer::tie() {
  const job_layout& l = *p_.layout;
  for (uint32_t t = 0; t < l.ties.size(); ++t)
    if (std::ranges::any_of(l.ties[t].parameters, [&](uint32_t q) { return l.holds(p_.rank, q); }))
      add_up(t, exchange(t));
}

// Adds the exchanges of the gradients of tied parameter `tie` and returns the last one. Each exchange waits for the
// previous one, in the same order on all ranks, and all write to one slot.
handle gradient_writer::exchange(uint32_t tie) {
  const job_layout& l = *p_.layout;
  const uint32_t here = l.options.mesh.pipeline_at(p_.rank);
  const uint64_t element_bytes = core::size_of(p_.options().types.accumulation);
  handle before = none;
  uint32_t slot = none;
  for (uint32_t e = 0; e < l.exchanges.size(); ++e) {
    const uint32_t side = side_of(l.exchanges[e], here);
    if (l.exchanges[e].tie != tie || side == none) continue;
    const handle x = d_.append(kind::tie, e, p_.options().accumulation - 1);
    if (slot == none) slot = d_.open(x, pool::transfers, received_elements(l, tie, here) * element_bytes, tie);
    d_.at(x).use = use::backward;
    d_.at(x).slots.moved = slot;
    d_.at(x).moved_bytes = tied_room(l, tie) * element_bytes;
    if (const uint32_t given = l.exchanges[e].gives[side]; given != none) d_.depend(x, reduced_[l.bucket_of[given]]);
    d_.depend(x, before);
    before = x;
  }
  return before;
}

void gradient_writer::add_up(uint32_t tie, handle received) {
  const job_layout& l = *p_.layout;
  const auto& uses = l.ties[tie].parameters;
  const handle x = d_.append(kind::tied_sum, tie, p_.options().accumulation - 1);
  d_.at(x).use = use::backward;
  d_.at(x).moved_bytes = uses.size() * tied_room(l, tie) * core::size_of(p_.options().types.accumulation);
  d_.depend(x, received);
  if (received != none) {
    const uint32_t slot = d_.at(received).slots.moved;
    d_.at(x).slots.moved = slot;
    d_.close(slot, x);
  }
  for (const uint32_t q : uses) {
    if (!l.holds(p_.rank, q)) continue;
    const uint32_t b = l.bucket_of[q];
    d_.depend(x, reduced_[b]);
    reduced_[b] = x;
    if (p_.options().reduces_in_place()) d_.buffer(open_for(b, 0)).last = x;
  }
  if (l.holds(p_.rank, uses.front())) norm(l.bucket_of[uses.front()]);
}

}  // namespace troupe::plan
