#include "plan/choose/measured_prices.hpp"

#include <algorithm>
#include <cmath>

#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"

namespace troupe::plan {

measured_prices::key measured_prices::key_of(const rank_plan& p, const instruction& x) {
  return {x.kind, x.use, x.what, x.subject, x.segment, x.near, x.repeats, x.piece, output_pieces(*p.layout, x)};
}

void measured_prices::add(const rank_plan& p, const instruction& x, double seconds) {
  const auto [kind, use, what, subject, segment, near, repeats, piece, pieces] = key_of(p, x);
  add({kind, use, what, near, repeats, subject, segment, piece, pieces, seconds, predicted_seconds(p, x, costs_),
       x.flops, x.moved_bytes, 1});
}

void measured_prices::add(const price_sum& x) {
  const key which{x.kind, x.use, x.what, x.subject, x.segment, x.near, x.repeats, x.piece, x.pieces};
  for (mean* m : {&known_[which], &of_kind_[x.kind], &of_lane_[lane_of(x.kind)]}) {
    m->seconds += x.seconds;
    m->modelled_s += x.modelled_s;
    m->flops += x.flops;
    m->bytes += x.bytes;
    m->count += x.count;
  }
  if (row_of(x.kind).work != unit_work::forward) return;
  mean& whole = forward_of_[{x.subject, x.segment}];
  whole.seconds += x.seconds;
  whole.modelled_s += x.modelled_s;
  whole.flops += x.flops;
  if (x.piece == 0) whole.count += x.count;
}

std::vector<price_sum> measured_prices::sums() const {
  std::vector<price_sum> out;
  for (const auto& [which, m] : known_) {
    const auto& [kind, use, what, subject, segment, near, repeats, piece, pieces] = which;
    out.push_back({kind, use, what, near, repeats, subject, segment, piece, pieces, m.seconds, m.modelled_s, m.flops,
                   m.bytes, m.count});
  }
  return out;
}

double measured_prices::seconds(const rank_plan& p, const instruction& x) const {
  if (x.guard != guard::always && x.guard != guard::not_skipped) return 0;
  // Another plan may number its buckets, sub-groups and sets differently, so that an equal key can denote different
  // data: the measurement counts only if it moved as many bytes as `x` does.
  const auto same = known_.find(key_of(p, x));
  const double modelled_s = predicted_seconds(p, x, costs_);
  if (same != known_.end() && same->second.bytes == x.moved_bytes * same->second.count) {
    const auto& [seconds, of_model_s, flops, bytes, count] = same->second;
    const auto times = static_cast<double>(count);
    return std::abs(flops / times - x.flops) <= 1e-6 * x.flops ? seconds / times : modelled_s * seconds / of_model_s;
  }
  const unit_work work = row_of(x.kind).work;
  if (work == unit_work::recompute)
    if (const double s = recomputed(p, x); s > 0) return s;
  const auto scaled = [&](const auto& all, auto which) {
    const auto at = all.find(which);
    return at != all.end() && at->second.modelled_s > 0 ? modelled_s * at->second.seconds / at->second.modelled_s : -1;
  };
  // The measured plan computed this segment in another number of pieces: the ratio of its measured to its modelled time
  // scales the modelled time.
  if (work == unit_work::forward)
    if (const double s = scaled(forward_of_, std::pair(x.subject, x.segment)); s >= 0) return s;
  if (const double s = scaled(of_kind_, x.kind); s >= 0) return s;
  const double s = scaled(of_lane_, x.lane);
  return s >= 0 ? s : modelled_s;
}

double measured_prices::recomputed(const rank_plan& p, const instruction& x) const {
  double out = 0, flops = 0;  // measured seconds, and flops, each summed over complete forwards
  for (uint32_t s = 0; s < p.table().units[x.subject].segments.size(); ++s) {
    if (x.segment != none && s != x.segment) continue;
    const auto forward = forward_of_.find({x.subject, s});
    if (forward == forward_of_.end()) return 0;
    out += forward->second.seconds / static_cast<double>(forward->second.count);
    flops += forward->second.flops / static_cast<double>(forward->second.count);
  }
  return flops > 0 ? out * std::min(1.0, x.flops / flops) : out;
}

}  // namespace troupe::plan
