#include "plan/passes/speculation.hpp"

#include "plan/layout/update_memory.hpp"

namespace troupe::plan {

speculation::speculation(plan_writer& writer, state_swaps& swaps)
    : writer_(writer),
      swaps_(swaps),
      p_(writer.plan()),
      readers_(p_.sub_groups.size()),
      last_reader_(p_.sub_groups.size(), none),
      norm_(p_.layout->buckets.size(), none),
      last_use_(p_.table().units.size() + 1, none),
      gathers_(p_.layout->gather_sets.size()) {
  std::vector<std::vector<uint32_t>> units_of(p_.table().parameters.size());
  for (uint32_t u = 0; u < p_.table().units.size(); ++u)
    for (uint32_t q : p_.table().units[u].parameters) units_of[q].push_back(u);
  for (uint32_t g = 0; g < p_.sub_groups.size(); ++g) {
    if (!p_.speculates(g)) continue;
    waiting_.push_back(g);
    auto& readers = readers_[g];
    bool persistent = false;
    for (const auto& piece : p_.sub_groups[g].pieces) {
      readers.insert(readers.end(), units_of[piece.parameter].begin(), units_of[piece.parameter].end());
      persistent = persistent || p_.layout->persistent[piece.parameter];
    }
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    last_reader_[g] = readers.empty() ? 0 : readers.front();
    if (persistent) readers.push_back(p_.layout->persistent_set());
  }
}

void speculation::look_at_new_instructions() {
  for (; seen_ < p_.instructions.size(); ++seen_) {
    const auto& x = p_.instructions[seen_];
    if (x.kind == kind::norm) norm_[x.subject] = x.id;
    if (x.kind == kind::gather) gathers_[x.subject].push_back(x.id);
    if (x.kind == kind::forward || x.kind == kind::recompute || x.kind == kind::backward) last_use_[x.subject] = x.id;
  }
}

bool speculation::reduced(uint32_t group) const {
  const auto& pieces = p_.sub_groups[group].pieces;
  return std::all_of(pieces.begin(), pieces.end(),
                     [&](const owned_piece& x) { return norm_[p_.layout->bucket_of[x.parameter]] != none; });
}

void speculation::after_backward(uint32_t unit) {
  if (waiting_.empty()) return;
  look_at_new_instructions();
  for (size_t i = 0; i < waiting_.size();) {
    const uint32_t g = waiting_[i];
    if (last_reader_[g] < unit || !reduced(g)) {
      if (swaps_.moves(g)) return;  // windows are filled in one order
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    update(g);
  }
}

// At stage 3 backward reads gathered copies: once those are made on every rank, the slices are nobody's.
void speculation::update(uint32_t g) {
  swaps_.before_update(g, none);
  auto& x = writer_.emit(kind::update, g, p_.options().accumulation - 1);
  const auto& group = p_.sub_groups[g];
  x.bytes = updated_bytes(*p_.layout, group);
  for (const auto& piece : group.pieces) {
    x.bytes += undo_bytes(*p_.layout, piece);
    plan_writer::depend(x, norm_[p_.layout->bucket_of[piece.parameter]]);
  }
  for (uint32_t reader : readers_[g]) {
    if (!p_.layout->gathers()) plan_writer::depend(x, last_use_[reader]);
    for (uint32_t gather : gathers_[reader]) plan_writer::depend(x, gather);
  }
  writer_.read_gradients(x, g);
  const uint32_t id = x.id;
  updates_.push_back(id);
  swaps_.after_update(g, id, none);
}

void speculation::undo(uint32_t vote) {
  for (uint32_t update : updates_) {
    const uint32_t g = p_.instructions[update].subject;
    auto& x = writer_.emit(kind::undo, g, p_.options().accumulation - 1);
    x.guard = guard::skipped;
    for (const auto& piece : p_.sub_groups[g].pieces) x.bytes += 2 * undo_bytes(*p_.layout, piece);
    plan_writer::depend(x, vote);
    plan_writer::depend(x, update);
  }
}

}  // namespace troupe::plan
