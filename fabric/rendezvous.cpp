#include "fabric/rendezvous.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <type_traits>

#include "core/text.hpp"
#include "fabric/layout.hpp"

namespace troupe::fabric {
namespace {

using core::error_kind;

template <class T>
std::string spelled(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_floating_point_v<T>)
    return core::text_of("%.9g", static_cast<double>(value));
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(value);
  else
    return std::string(value);
}

std::string spelled(const piece& p) {
  return "owner " + std::to_string(p.owner) + " from " + std::to_string(p.from) + " to " + std::to_string(p.to) +
         " count " + std::to_string(p.count);
}

/// The first field in which two members differ, as "<field>: wanted .., got ..".
std::optional<std::string> difference(const request& wanted, const request& got) {
  std::optional<std::string> out;
  const auto compare = [&](const char* field, const auto& a, const auto& b) {
    if (!out && a != b) out = std::string(field) + ": wanted " + spelled(a) + ", got " + spelled(b);
  };
  compare("communicator", wanted.id.communicator, got.id.communicator);
  compare("step", wanted.id.step, got.id.step);
  compare("instruction", wanted.id.what, got.id.what);
  compare("operation", name_of(wanted.op), name_of(got.op));
  compare("input dtype", name_of(wanted.input_type), name_of(got.input_type));
  compare("communication dtype", name_of(wanted.communication), name_of(got.communication));
  compare("output dtype", name_of(wanted.output_type), name_of(got.output_type));
  compare("input scale", wanted.input_scale, got.input_scale);
  compare("accumulate", wanted.accumulate, got.accumulate);
  compare("number of pieces", wanted.pieces.size(), got.pieces.size());
  if (out || wanted.pieces.data() == got.pieces.data()) return out;
  for (size_t i = 0; !out && i < wanted.pieces.size(); ++i)
    compare(("piece " + std::to_string(i)).c_str(), wanted.pieces[i], got.pieces[i]);
  return out;
}

}  // namespace

std::string describe(const identity& id, operation op) {
  return std::string(name_of(op)) + " '" + id.what + "' (communicator " + std::to_string(id.communicator) + ", step " +
         std::to_string(id.step) + ", sequence " + std::to_string(id.sequence) + ")";
}

std::string rendezvous::name_of(uint32_t rank) const {
  return "rank " + std::to_string(ranks_.empty() ? rank : ranks_[rank]);
}

core::result<void> rendezvous::check_turn(uint32_t rank, const request& r) const {
  const uint64_t due = next_[rank];
  if (r.id.sequence != due)
    return core::fail(error_kind::mismatch, name_of(rank) + " posted " + describe(r.id, r.op) +
                                                " out of turn: wanted sequence " + std::to_string(due) + ", got " +
                                                std::to_string(r.id.sequence));
  if (due - oldest_ >= operations_in_flight_max)
    return core::fail(error_kind::limit, name_of(rank) + " posted " + describe(r.id, r.op) +
                                             " too far ahead: at most " + std::to_string(operations_in_flight_max) +
                                             " from the oldest unfinished one, sequence " + std::to_string(oldest_));
  return {};
}

core::result<void> rendezvous::open(uint32_t rank, const request& r) {
  if (auto ok = check_request(r, size()); !ok)
    return core::fail(ok.error().in(name_of(rank) + " posted " + describe(r.id, r.op)));
  std::unique_ptr<meeting> m;
  if (spare_.empty()) {
    m = std::make_unique<meeting>();
  } else {
    m = std::move(spare_.back());
    spare_.pop_back();
  }
  m->shared = r;
  m->first = rank;
  m->memory.assign(size(), {});
  m->shares.assign(size(), meeting::share::waiting);
  m->arrived = m->finished = 0;
  m->bytes = elements_of(r.pieces) * core::size_of(r.input_type);
  m->ready_ns = 0;
  window_.push_back(std::move(m));
  return {};
}

core::result<meeting*> rendezvous::arrive(uint32_t rank, const request& r) {
  if (failure_) return core::fail(*failure_);
  if (auto ok = check_turn(rank, r); !ok) return core::fail(ok.error());
  // No member is more than one operation beyond the window's end, because all post without gaps.
  if (r.id.sequence - oldest_ == window_.size()) {
    if (auto ok = open(rank, r); !ok) return core::fail(ok.error());
  }
  meeting& m = *window_[r.id.sequence - oldest_];
  if (m.arrived > 0) {
    if (const auto differs = difference(m.shared, r))
      return core::fail(error_kind::mismatch, name_of(rank) + " posted " + describe(r.id, r.op) + " where " +
                                                  name_of(m.first) + " posted " + describe(m.shared.id, m.shared.op) +
                                                  "; " + *differs);
  }
  m.memory[rank] = {r.input, r.output};
  ++m.arrived;
  ++next_[rank];
  return &m;
}

core::result<meeting*> rendezvous::find(uint32_t rank, uint64_t sequence) {
  if (sequence >= next_[rank]) {
    if (failure_) return core::fail(*failure_);
    return core::fail(error_kind::bug, name_of(rank) + " advances sequence " + std::to_string(sequence) +
                                           ", which it has not posted; its next is " + std::to_string(next_[rank]));
  }
  if (sequence < oldest_) return nullptr;
  meeting* m = window_[sequence - oldest_].get();
  if (m != nullptr && failure_) return core::fail(*failure_);
  return m;
}

bool rendezvous::finish(uint64_t sequence, uint32_t rank) {
  auto& slot = window_[sequence - oldest_];
  assert(slot && slot->shares[rank] != meeting::share::finished);
  slot->shares[rank] = meeting::share::finished;
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
    if (m->shares[rank] != meeting::share::finished) out.push_back(rank);
  return out;
}

core::error rendezvous::lost(uint32_t rank) const {
  std::string text = name_of(rank) + (ranks_.empty() ? " of " + std::to_string(size()) : "") + " ended";
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
