#include "fabric/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "fabric/layout.hpp"
#include "fabric/sentences.hpp"

namespace troupe::fabric {

std::string rendezvous::name_of(uint32_t rank) const {
  return fmt::format("rank {}", ranks_.empty() ? rank : ranks_[rank]);
}

core::result<void> rendezvous::check_turn(uint32_t rank, const request& r) const {
  const uint64_t due = next_[rank];
  if (r.id.sequence != due) return core::fail(out_of_turn(name_of(rank), r, due));
  if (due - oldest_ >= operations_in_flight_max)
    return core::fail(too_far_ahead(name_of(rank), r, operations_in_flight_max, oldest_));
  return {};
}

core::result<void> rendezvous::open(uint32_t rank, const request& r) {
  if (auto ok = check_request(r, size()); !ok) return core::fail(unsound(name_of(rank), r, ok.error()));
  std::unique_ptr<posted_operation> m;
  if (spare_.empty()) {
    m = std::make_unique<posted_operation>();
  } else {
    m = std::move(spare_.back());
    spare_.pop_back();
  }
  m->shared = r;
  m->first = rank;
  m->memory.assign(size(), {});
  m->shares.assign(size(), posted_operation::share::waiting);
  m->arrived = m->finished = 0;
  m->bytes = elements_of(r.pieces) * core::size_of(r.input_type);
  m->ready_ns = 0;
  window_.push_back(std::move(m));
  return {};
}

core::result<posted_operation*> rendezvous::arrive(uint32_t rank, const request& r) {
  if (failure_) return core::fail(*failure_);
  TROUPE_TRY(check_turn(rank, r));
  // True if `rank` is the first to arrive at this operation. It is then the next one after the window, because all
  // members post without gaps.
  if (r.id.sequence - oldest_ == window_.size()) {
    TROUPE_TRY(open(rank, r));
  }
  posted_operation& m = *window_[r.id.sequence - oldest_];
  if (m.arrived > 0) {
    if (const auto differs = difference(m.shared, r))
      return core::fail(mismatch(name_of(rank), r, name_of(m.first), m.shared, *differs));
  }
  m.memory[rank] = {r.input, r.output};
  ++m.arrived;
  ++next_[rank];
  return &m;
}

void rendezvous::follow(uint32_t rank, uint32_t like) {
  assert(next_[rank] + 1 == next_[like]);
  posted_operation& m = *window_[next_[rank] - oldest_];
  m.memory[rank] = m.memory[like];
  ++m.arrived;
  ++next_[rank];
}

core::result<posted_operation*> rendezvous::find(uint32_t rank, uint64_t sequence) {
  if (sequence >= next_[rank]) {
    if (failure_) return core::fail(*failure_);
    return core::fail(not_posted(name_of(rank), sequence, next_[rank]));
  }
  if (sequence < oldest_) return nullptr;
  posted_operation* m = window_[sequence - oldest_].get();
  if (m != nullptr && failure_) return core::fail(*failure_);
  return m;
}

bool rendezvous::finish(uint64_t sequence, uint32_t rank) {
  auto& slot = window_[sequence - oldest_];
  assert(slot && slot->shares[rank] != posted_operation::share::finished);
  slot->shares[rank] = posted_operation::share::finished;
  if (++slot->finished < size()) return false;
  spare_.push_back(std::move(slot));
  while (!window_.empty() && !window_.front()) {
    window_.pop_front();
    ++oldest_;
  }
  return true;
}

std::vector<uint32_t> rendezvous::missing(uint64_t sequence) const {
  std::vector<uint32_t> out;
  if (sequence < oldest_) return out;
  for (uint32_t rank = 0; rank < size(); ++rank)
    if (next_[rank] <= sequence) out.push_back(rank);
  if (!out.empty()) return out;
  const auto& m = window_[sequence - oldest_];
  for (uint32_t rank = 0; m && rank < size(); ++rank)
    if (m->shares[rank] != posted_operation::share::finished) out.push_back(rank);
  return out;
}

core::error rendezvous::lost(uint32_t rank) const {
  std::string text = name_of(rank) + (ranks_.empty() ? fmt::format(" of {}", size()) : "") + " ended";
  if (!window_.empty())
    text += " before all had done " + describe(window_.front()->shared.id, window_.front()->shared.op);
  return {error_kind::peer_lost, text};
}

std::vector<std::pair<uint32_t, uint64_t>> rendezvous::fail(core::error why) {
  std::vector<std::pair<uint32_t, uint64_t>> out;
  if (failure_) return out;
  failure_ = std::move(why);
  for (uint32_t rank = 0; rank < size(); ++rank)
    for (uint64_t sequence = oldest_; sequence < next_[rank]; ++sequence)
      if (window_[sequence - oldest_]) out.emplace_back(rank, sequence);
  return out;
}

}  // namespace troupe::fabric
