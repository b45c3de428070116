#include "sim/held_memory.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "plan/keeping.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/memory_places.hpp"

namespace troupe::sim {
namespace {

constexpr std::string_view activations_owner = "activations";

/// Returns the owner of the slots of a pool.
std::string_view owner_of(plan::pool p) {
  switch (p) {
    case plan::pool::gathered:
      return "gathered parameters";
    case plan::pool::buckets:
      return "gradient buckets";
    case plan::pool::directions:
      return "update directions";
    case plan::pool::staging:
      return "staging for checkpoints";
    case plan::pool::transfers:
      return "transfers between ranks";
    case plan::pool::compressed:
      return "compressed parameters";
    case plan::pool::activations:
      return "offloaded activations";
    case plan::pool::states:
    case plan::pool::shards:
    case plan::pool::reduced:
      return "windows onto swap files";
    default:
      return {};
  }
}

/// Writes the holdings of one rank in one step.
class memory_writer {
 public:
  memory_writer(std::vector<holding>& out, const plan::rank_plan& p, std::span<const telemetry::interval> times,
                const step_record& step)
      : out_(out), p_(p), times_(times), step_(step), owners_(plan::owners_of(p.memory, p.options().tiers)) {}

  void write() {
    for (const auto& b : p_.buffers) {
      const auto owner = owner_of(b.pool);
      if (!owner.empty() && b.first != plan::none)
        hold(owner, b.bytes, start_of(b.first), end_of(b.last == plan::none ? b.first : b.last));
    }
    for (const auto& x : p_.instructions)
      if (x.lane == plan::lane::compute && has_started(x.id)) hold_activations(x);
    for (uint32_t k = 0; k < owners_.size(); ++k)
      if (!is_timed(owners_[k].owner)) add(k, owners_[k].bytes, step_.began_ns, step_.ended_ns);
  }

 private:
  using place = std::tuple<uint32_t, uint32_t, uint32_t>;  // unit, segment, micro-batch

  static bool is_timed(std::string_view owner) {
    if (owner == activations_owner) return true;
    for (uint32_t k = 0; k < plan::num_pools; ++k)
      if (owner_of(static_cast<plan::pool>(k)) == owner) return true;
    return false;
  }

  [[nodiscard]] bool has_started(uint32_t id) const { return times_[id].start_ns != history::never; }
  [[nodiscard]] int64_t start_of(uint32_t id) const { return has_started(id) ? times_[id].start_ns : step_.ended_ns; }
  [[nodiscard]] int64_t end_of(uint32_t id) const {
    return times_[id].end_ns != history::never ? times_[id].end_ns : step_.ended_ns;
  }

  void add(uint32_t owner, uint64_t bytes, int64_t from_ns, int64_t to_ns) {
    if (bytes > 0 && from_ns < to_ns) out_.push_back({owner, p_.rank, bytes, from_ns, to_ns});
  }
  void hold(std::string_view owner, uint64_t bytes, int64_t from_ns, int64_t to_ns) {
    for (uint32_t k = 0; k < owners_.size(); ++k)
      if (owners_[k].owner == owner) add(k, bytes, from_ns, to_ns);
  }
  void hold_activations(uint64_t bytes, int64_t from_ns, int64_t to_ns) {
    hold(activations_owner, bytes, from_ns, to_ns);
  }

  // Returns the end of the first instruction of the kind that computes segment `segment` of the unit in the
  // micro-batch; the end of the step if there is none.
  int64_t end_of(plan::kind k, uint32_t unit, uint32_t segment, uint32_t micro) {
    auto& of_kind = ends_[k];
    if (of_kind.empty())
      for (const auto& x : p_.instructions)
        if (x.kind == k) of_kind.try_emplace(place{x.subject, x.segment, x.micro}, end_of(x.id));
    const auto found = of_kind.find(place{unit, segment, micro});
    return found == of_kind.end() ? step_.ended_ns : found->second;
  }

  void hold_activations(const plan::instruction& x) {
    const auto& o = p_.options();
    const bool trains = o.mode == plan::mode::train;
    if (x.kind == plan::kind::recompute) return hold_recomputed(x);
    if (x.kind != plan::kind::forward && x.kind != plan::kind::backward) return;
    const auto& info = p_.table().units[x.subject];
    const core::segment_info& s = info.segments[x.segment];
    const auto keeps = plan::keeping_of(p_.table(), o, x.subject, x.segment);
    const bool again = trains && o.recomputes(x.subject);
    if (x.kind == plan::kind::backward) {
      hold_activations(keeps.beside, start_of(x.id), end_of(x.id));
      if (x.use == plan::use::input)
        hold_activations(s.weight_bytes, end_of(x.id),
                         end_of(plan::kind::backward_weight, x.subject, x.segment, x.micro));
      return;
    }
    const uint64_t kept = trains && !again ? keeps.bytes : 0;
    const auto backward = [&](uint32_t segment) { return end_of(plan::kind::backward, x.subject, segment, x.micro); };
    if (kept > 0) hold_activations(kept, start_of(x.id), backward(x.segment));
    hold_activations(s.saved_bytes - std::min(kept, s.saved_bytes), start_of(x.id), end_of(x.id));
    if (again && keeps.bytes > 0 && x.segment == 0) {
      const uint64_t elsewhere = plan::activation_window_bytes(*p_.layout, x.subject) > 0 ? info.input_bytes : 0;
      const uint64_t from = plan::recomputed_from_bytes(info, o);
      hold_activations(from - std::min(from, elsewhere), start_of(x.id), backward(0));
    }
  }

  void hold_recomputed(const plan::instruction& x) {
    const auto& segments = p_.table().units[x.subject].segments;
    for (uint32_t s = 0; s < segments.size(); ++s)
      if (x.segment == plan::none || x.segment == s)
        hold_activations(plan::keeping_of(p_.table(), p_.options(), x.subject, s).bytes, start_of(x.id),
                         end_of(plan::kind::backward, x.subject, s, x.micro));
  }

  std::vector<holding>& out_;
  const plan::rank_plan& p_;
  std::span<const telemetry::interval> times_;
  const step_record& step_;
  std::vector<plan::owner_bytes> owners_;
  std::map<plan::kind, std::map<place, int64_t>> ends_;  // [kind][segment of a unit in a micro-batch]: its end
};

}  // namespace

std::vector<std::string> memory_owners() {
  std::vector<std::string> out;
  for (const auto& x : plan::owners_of({}, {})) out.emplace_back(x.owner);
  return out;
}

void append_memory(std::vector<holding>& out, const plan::rank_plan& p, std::span<const telemetry::interval> times,
                   const step_record& step) {
  memory_writer(out, p, times, step).write();
}

}  // namespace troupe::sim
