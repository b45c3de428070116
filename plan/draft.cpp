#include "plan/draft.hpp"

#include <utility>

namespace troupe::plan {

void draft::link_before(handle x, handle where) {
  node& n = nodes_[x];
  n.next = where;
  n.before = where == none ? last_ : nodes_[where].before;
  (n.before == none ? first_ : nodes_[n.before].next) = x;
  (where == none ? last_ : nodes_[where].before) = x;
}

void draft::unlink(handle x) {
  const node& n = nodes_[x];
  (n.before == none ? first_ : nodes_[n.before].next) = n.next;
  (n.next == none ? last_ : nodes_[n.next].before) = n.before;
}

handle draft::insert_before(handle where, kind k, uint32_t subject, uint32_t micro) {
  const auto x = static_cast<handle>(nodes_.size());
  operation& made = nodes_.emplace_back().x;
  made.kind = k;
  made.subject = subject;
  made.micro = micro;
  link_before(x, where);
  ++changes_.added;
  return x;
}

handle draft::insert_after(handle where, kind k, uint32_t subject, uint32_t micro) {
  return insert_before(next(where), k, subject, micro);
}

handle draft::append_mark() {
  const auto x = static_cast<handle>(nodes_.size());
  nodes_.emplace_back().state = state::mark;
  link_before(x, none);
  return x;
}

void draft::move_before(handle x, handle where) {
  unlink(x);
  link_before(x, where);
  ++changes_.moved;
}

void draft::move_after(handle x, handle where) {
  unlink(x);
  link_before(x, next(where));
  ++changes_.moved;
}

void draft::remove(handle x, handle instead) {
  unlink(x);
  nodes_[x].state = state::removed;
  nodes_[x].instead = instead;
  ++changes_.removed;
}

uint32_t draft::open(handle first, pool where, uint64_t bytes, uint32_t subject) {
  buffers_.push_back({where, bytes, subject, first, none, none});
  replaced_by_.push_back(none);
  return static_cast<uint32_t>(buffers_.size() - 1);
}

draft_changes draft::take_changes() { return std::exchange(changes_, {}); }

void read_gradients(draft& d, const rank_plan& p, uint32_t group, handle x) {
  if (!p.options().reduces_in_place()) return;
  for (const auto& piece : p.sub_groups[group].pieces) {
    const size_t bucket = p.layout->bucket_of[piece.parameter];
    d.read(d.bucket_buffers[(bucket + 1) * p.options().accumulation - 1], x);
  }
}

}  // namespace troupe::plan
