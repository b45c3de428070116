#include "plan/schedule/uses.hpp"

#include <algorithm>

#include "plan/group_exchange.hpp"
#include "plan/stages.hpp"

namespace troupe::plan {
namespace {

class use_list {
 public:
  explicit use_list(const job_layout& l) : l_(l) {}

  void forward(uint32_t stage, uint32_t micro) { append(whole(stage, micro, use::forward)); }
  void backward(uint32_t stage, uint32_t micro, use kind = use::backward) {
    if (l_.options.mode != mode::train) return;
    const schedule all = unsplit(whole(stage, micro, kind));
    append(l_.options.overlap_exchanges && kind == use::backward ? beside_exchanges(all) : all);
  }
  // Adds the uses of an action of type overlap: segments of its forward alternate with segments of its backward, so
  // that products of the backward run while the forward waits for an exchange, and the reverse.
  void overlap(const action& a) {
    if (l_.options.mode != mode::train) return forward(a.stage, a.micro);
    const schedule f = pieces(whole(a.stage, a.micro, use::forward));
    schedule b = pieces(whole(a.backward_stage, a.backward_micro, use::backward));
    if (l_.options.overlap_exchanges) b = beside_exchanges(b);
    for (size_t i = 0; i < std::max(f.size(), b.size()); ++i) {
      if (i < f.size()) out_.push_back(f[i]);
      if (i < b.size()) out_.push_back(b[i]);
    }
  }
  schedule take() { return std::move(out_); }

 private:
  [[nodiscard]] schedule whole(uint32_t stage, uint32_t micro, use kind) const {
    schedule out;
    for (uint32_t u = 0; u < l_.stage_of_unit.size(); ++u)
      if (l_.stage_of_unit[u] == stage && runs(l_, u) && (kind == use::forward || has_backward(l_, u)))
        out.push_back({u, micro, kind});
    if (kind != use::forward) std::ranges::reverse(out);
    return out;
  }
  // Returns the uses with whole backwards for units that must not be split: they run where other units have their input
  // part.
  [[nodiscard]] schedule unsplit(schedule uses) const {
    std::erase_if(
        uses, [&](const unit_use& u) { return u.kind == use::weights && l_.options.compressed.is_unsplit(u.unit); });
    for (unit_use& u : uses)
      if (u.kind == use::input && l_.options.compressed.is_unsplit(u.unit)) u.kind = use::backward;
    return uses;
  }
  [[nodiscard]] schedule pieces(const schedule& uses) const {
    schedule out;
    for (unit_use u : uses) {
      const auto segments = std::max<uint32_t>(1, static_cast<uint32_t>(l_.table->units[u.unit].segments.size()));
      for (uint32_t i = 0; i < segments; ++i) {
        u.first = u.kind == use::forward ? i : segments - 1 - i;
        u.end = u.first + 1;
        out.push_back(u);
      }
    }
    return out;
  }
  // Splits backwards so that the exchange of the gradient of a segment's input overlaps with the segment's weight part.
  [[nodiscard]] schedule beside_exchanges(const schedule& uses) const {
    schedule out;
    for (unit_use u : uses) {
      if (u.end == none && !splits_anywhere(u)) {
        out.push_back(u);
        continue;
      }
      for (unit_use piece : u.end == none ? pieces({u}) : schedule{u}) {
        const bool split = splits(piece.unit, piece.first);
        piece.kind = split ? use::input : use::backward;
        out.push_back(piece);
        piece.kind = use::weights;
        if (split) out.push_back(piece);
      }
    }
    return out;
  }
  [[nodiscard]] bool splits(uint32_t unit, uint32_t segment) const {
    const auto& segments = l_.table->units[unit].segments;
    if (l_.options.compressed.is_unsplit(unit)) return false;
    return segment < segments.size() && segments[segment].weight_flops > 0 &&
           exchange_of(l_, unit, segment, use::backward).ranks > 1;
  }
  [[nodiscard]] bool splits_anywhere(const unit_use& u) const {
    for (uint32_t s = 0; s < l_.table->units[u.unit].segments.size(); ++s)
      if (splits(u.unit, s)) return true;
    return false;
  }
  void append(const schedule& more) { out_.insert(out_.end(), more.begin(), more.end()); }

  const job_layout& l_;
  schedule out_;
};

// True if input part `a` and weight part `next` run as one whole backward, segment by segment, which keeps no data
// between the parts. In the model's first stage no stage waits for the gradient of the input; in other stages a whole
// backward would delay the gradient for the stage before.
bool is_whole(const action& a, const action& next) {
  return a.type == action_type::backward_input && a.stage == 0 &&
         next == action{action_type::backward_weight, a.stage, a.micro};
}

}  // namespace

schedule uses_of(const rank_plan& p) {
  const job_layout& l = *p.layout;
  if (l.options.mode == mode::save) return {};
  use_list out(l);
  if (l.options.pipeline.first_unit.empty()) {
    for (uint32_t m = 0; m < l.options.accumulation; ++m) {
      out.forward(0, m);
      out.backward(0, m);
    }
    return out.take();
  }
  const auto& parts = l.options.pipeline.table.orders[l.options.mesh.pipeline_at(p.rank)];
  for (size_t i = 0; i < parts.size(); ++i) {
    const action& a = parts[i];
    if (i + 1 < parts.size() && is_whole(a, parts[i + 1])) {
      out.backward(a.stage, a.micro);
      ++i;
      continue;
    }
    if (a.type == action_type::overlap) out.overlap(a);
    if (a.type == action_type::forward) out.forward(a.stage, a.micro);
    if (a.type == action_type::backward) out.backward(a.stage, a.micro);
    if (a.type == action_type::backward_input) out.backward(a.stage, a.micro, use::input);
    if (a.type == action_type::backward_weight) out.backward(a.stage, a.micro, use::weights);
  }
  return out.take();
}

}  // namespace troupe::plan
