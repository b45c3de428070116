#include "plan/choose/cost.hpp"

#include <algorithm>

namespace troupe::plan {
namespace {

/// Bytes of the gradients that one backward writes.
uint64_t gradient_bytes(const rank_plan& p, const core::segment_info& s) {
  uint64_t n = 0;
  for (uint32_t q : s.parameters)
    if (p.layout->trains(q)) n += p.table().parameters[q].numel();
  return n * core::size_of(p.options().bucket_type());
}

uint64_t touched_bytes(const rank_plan& p, const instruction& x) {
  const auto segment = [&]() -> const core::segment_info& { return p.table().units[x.subject].segments[x.segment]; };
  switch (x.kind) {
    case kind::forward:
      return segment().saved_bytes;
    case kind::backward:
      return segment().saved_bytes + gradient_bytes(p, segment());
    case kind::recompute: {
      uint64_t n = 0;
      for (const auto& s : p.table().units[x.subject].segments) n += s.saved_bytes;
      return n;
    }
    // Each rank reads its part of every rank's bucket; where all get the sum, it writes that part everywhere too.
    case kind::reduce:
      return p.options().reduce_to_all() ? 2 * x.bytes : x.bytes;
    case kind::load:
    case kind::release:
    case kind::orthogonalise:  // arithmetic
      return 0;
    case kind::gather:
    case kind::norm:
    case kind::vote:
    case kind::prepare:
    case kind::measure:
    case kind::collect:
    case kind::spread:
    case kind::update:
    case kind::undo:
    case kind::publish:
    case kind::snapshot:
      return x.bytes;
    case kind::write:  // the disk's time
    case kind::swap_in:
    case kind::swap_out:
      return 0;
  }
  return 0;
}

/// Plays all ranks at once: each as far as its next collective, which is done when all have come to it.
class player {
 public:
  player(rank_plans ranks, const cost_model& costs, std::vector<uint32_t> stands_for)
      : costs_(costs), next_(ranks.size(), 0), lane_free_(ranks.size()), io_free_(ranks.size(), 0) {
    out_.plans.assign(ranks.begin(), ranks.end());
    out_.ranks.resize(ranks.size());
    out_.stands_for = std::move(stands_for);
    out_.stands_for.resize(ranks.size(), 1);
    for (size_t r = 0; r < ranks.size(); ++r) out_.ranks[r].instructions.resize(ranks[r]->instructions.size());
  }

  timeline run() {
    for (uint32_t k = 0; k < out_.plans[0]->num_collectives; ++k) meet();
    for (uint32_t r = 0; r < out_.plans.size(); ++r) advance(r);
    for (uint32_t r = 0; r < out_.plans.size(); ++r) sum_up(r);
    return std::move(out_);
  }

 private:
  struct free_times {
    double at[num_lanes] = {};
  };

  [[nodiscard]] double ready(uint32_t r, const instruction& x) const {
    double t = lane_free_[r].at[static_cast<size_t>(x.lane)];
    for (uint32_t on : x.after) {
      const auto& other = out_.plans[r]->instructions[on];
      t = std::max(t, out_.ranks[r].instructions[on].end_s + (other.lane == x.lane ? 0 : costs_.latency_s));
    }
    return t;
  }
  void finish(uint32_t r, const instruction& x, timed t) {
    out_.ranks[r].instructions[x.id] = t;
    out_.step_s = std::max(out_.step_s, t.end_s);
  }

  // Up to the next collective, or to the end.
  void advance(uint32_t r) {
    const auto& all = out_.plans[r]->instructions;
    for (; next_[r] < all.size() && all[next_[r]].lane != lane::fabric; ++next_[r]) {
      const auto& x = all[next_[r]];
      const double start = ready(r, x), seconds = predicted_seconds(*out_.plans[r], x, costs_);
      if (x.kind == kind::write) {  // handed over; the ranks share a disk, and the step does not wait for it
        const double moving = std::max(start, disk_free_);
        disk_free_ = moving + seconds * out_.stands_for[r];
        lane_free_[r].at[static_cast<size_t>(x.lane)] = start;
        out_.ranks[r].instructions[x.id] = {start, moving, disk_free_};
        continue;
      }
      if (x.lane == lane::io) {  // started in order, moved one after the other
        const double moving = std::max(start, io_free_[r]);
        lane_free_[r].at[static_cast<size_t>(x.lane)] = start;
        io_free_[r] = moving + seconds;
        finish(r, x, {start, moving, moving + seconds});
        continue;
      }
      lane_free_[r].at[static_cast<size_t>(x.lane)] = start + seconds;
      finish(r, x, {start, start, start + seconds});
    }
  }
  void meet() {
    double arrived = 0, seconds = 0;
    std::vector<double> posted;
    for (uint32_t r = 0; r < out_.plans.size(); ++r) {
      advance(r);
      const auto& x = out_.plans[r]->instructions[next_[r]];
      posted.push_back(ready(r, x));
      lane_free_[r].at[static_cast<size_t>(lane::fabric)] =
          posted.back();  // the lane starts its next collective without waiting
      arrived = std::max(arrived, posted.back());
      seconds = std::max(seconds, predicted_seconds(*out_.plans[r], x, costs_));
    }
    if (out_.plans[0]->options().ranks > 1) arrived += costs_.latency_s;
    const double moving = std::max(arrived, fabric_free_);
    fabric_free_ = moving + seconds;
    for (uint32_t r = 0; r < out_.plans.size(); ++r)
      finish(r, out_.plans[r]->instructions[next_[r]++], {posted[r], moving, fabric_free_});
  }

  void sum_up(uint32_t r) {
    auto& out = out_.ranks[r];
    const auto& p = *out_.plans[r];
    for (uint32_t l = 0; l < num_lanes; ++l) {
      double busy = 0;
      for (uint32_t id : p.lanes[l]) busy += out.instructions[id].end_s - out.instructions[id].moving_s;
      out.idle_s[l] = std::max(0.0, out_.step_s - busy);  // writes may outlast the step
    }
    out.compute_s = out_.step_s - out.idle_s[static_cast<size_t>(lane::compute)];
    out.communication_s = out_.step_s - out.idle_s[static_cast<size_t>(lane::fabric)];
    const auto work = working_times(p, out);
    double hidden = 0;
    size_t w = 0;
    for (uint32_t id : p.lanes[static_cast<size_t>(lane::fabric)]) {  // which does not overlap itself
      const auto& x = out.instructions[id];
      while (w < work.size() && work[w].end_s <= x.moving_s) ++w;
      for (size_t i = w; i < work.size() && work[i].start_s < x.end_s; ++i)
        hidden += std::min(x.end_s, work[i].end_s) - std::max(x.moving_s, work[i].start_s);
    }
    out.exposed_s = std::max(0.0, out.communication_s - hidden);
  }

  /// When the compute or the shard lane worked: in order, apart from one another.
  static std::vector<timed> working_times(const rank_plan& p, const rank_timeline& of) {
    std::vector<timed> all, out;
    for (const lane l : {lane::compute, lane::shard})
      for (uint32_t id : p.lanes[static_cast<size_t>(l)]) all.push_back(of.instructions[id]);
    std::ranges::sort(all, {}, &timed::start_s);
    for (const timed& t : all)
      if (out.empty() || t.start_s > out.back().end_s)
        out.push_back(t);
      else
        out.back().end_s = std::max(out.back().end_s, t.end_s);
    return out;
  }

  const cost_model& costs_;
  timeline out_;
  std::vector<size_t> next_;           // [rank]: the instruction to play
  std::vector<free_times> lane_free_;  // [rank]
  std::vector<double> io_free_;        // [rank]: when all swaps requested so far have ended
  double fabric_free_ = 0, disk_free_ = 0;
};

}  // namespace

cost_model default_costs(core::dtype parameter, bool native_products) {
  cost_model out;
  const double fp32 = out.flops_per_s;
  if (parameter == core::dtype::bf16 || parameter == core::dtype::f16)
    out.flops_per_s = (native_products ? 2.1 : 0.9) * fp32;
  if (parameter == core::dtype::f64) out.flops_per_s = fp32 / 2;
  return out;
}

double predicted_seconds(const rank_plan& p, const instruction& x, const cost_model& costs) {
  if (x.guard == guard::skipped) return 0;  // the predicted step is not skipped
  if (x.kind == kind::write) return static_cast<double>(x.bytes) / costs.disk_bytes_per_s;
  // The ranks share a disk and use it at the same time.
  if (x.lane == lane::io) {
    const double rate = x.kind == kind::swap_in ? costs.disk_read_bytes_per_s : costs.disk_bytes_per_s;
    return costs.disk_latency_s + static_cast<double>(x.bytes) * p.options().ranks / rate;
  }
  return x.flops / costs.flops_per_s + static_cast<double>(touched_bytes(p, x)) / costs.copy_bytes_per_s;
}

timeline predict(rank_plans ranks, const cost_model& costs, std::vector<uint32_t> stands_for) {
  if (ranks.empty()) return {};
  return player(ranks, costs, std::move(stands_for)).run();
}

}  // namespace troupe::plan
