#include "plan/choose/cost.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

#include "plan/choose/cost_terms.hpp"
#include "plan/choose/waits.hpp"
#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"

namespace troupe::plan {
namespace {

/// Returns the bytes of the gradients that the backward of a segment, or its weight part, writes.
uint64_t gradient_bytes(const rank_plan& p, const instruction& x) {
  uint64_t n = 0;
  for (uint32_t q : p.table().units[x.subject].segments[x.segment].parameters)
    if (p.layout->trains(q)) n += p.table().parameters[q].numel();
  return n * core::size_of(p.options().bucket_type());
}

/// Returns the bytes of the activations that the forward of a segment saves, or the bytes of the unit if the
/// instruction has no segment.
uint64_t saved_bytes(const rank_plan& p, const instruction& x) {
  const auto& segments = p.table().units[x.subject].segments;
  if (x.segment != none) return segments[x.segment].saved_bytes;
  uint64_t n = 0;
  for (const auto& s : segments) n += s.saved_bytes;
  return n;
}

}  // namespace

uint64_t touched_bytes(const rank_plan& p, const instruction& x) {
  switch (row_of(x.kind).bytes) {
    case touched::nothing:
    case touched::disk_read:
    case touched::disk_written:
    case touched::disk_written_late:
      return 0;
    case touched::moved:
      return x.moved_bytes;
    case touched::moved_twice:
      return 2 * x.moved_bytes;
    case touched::saved:
      return saved_bytes(p, x);
    case touched::saved_and_gradients:
      return saved_bytes(p, x) + (x.use == use::input ? 0 : gradient_bytes(p, x));
    // The bytes that the weight part of a split backward reads again are counted for the input part only.
    case touched::gradients:
      return gradient_bytes(p, x);
    // If the exchange adds, each rank adds its part of all summands and writes the sum to all ranks; otherwise each
    // rank reads the other ranks' parts.
    case touched::exchanged:
      return (core::adds(exchange_of(*p.layout, x.subject, x.segment, x.use).op) ? 2 : 1) * x.moved_bytes;
    // Each rank reads its part of every rank's bucket; if several ranks receive the sum, it writes that part to them,
    // too.
    case touched::reduced: {
      const auto& o = p.options();
      if (o.reduce_to_all()) return 2 * x.moved_bytes;
      return x.moved_bytes + (o.replicas() > 1 ? x.moved_bytes / o.shards() : 0);
    }
  }
  return 0;
}

namespace {

/// Simulates all ranks at once: visits instructions in the order of the times at which they may start, which is when
/// the instructions that they wait for have ended and their line is free. A line is a lane of a rank; on the fabric
/// lane, the instructions of a rank in one communicator. A collective moves bytes when all members have posted it and
/// no member is moving the bytes of another one.
class player {
 public:
  player(rank_plans ranks, const instruction_price& price, double latency_s, std::vector<uint32_t> stands_for)
      : price_(price), waits_(ranks, latency_s), fabric_free_s_(ranks.size()), io_free_s_(ranks.size()) {
    out_.plans.assign(ranks.begin(), ranks.end());
    out_.ranks.resize(ranks.size());
    out_.stands_for = std::move(stands_for);
    out_.stands_for.resize(ranks.size(), 1);
    for (uint32_t r = 0; r < ranks.size(); ++r) out_.ranks[r].instructions.resize(ranks[r]->instructions.size());
  }

  timeline run() {
    waits_.begin(start_);
    while (!waiting_.empty()) {
      const moment m = waiting_.top();
      waiting_.pop();
      play(m);
    }
    for (uint32_t r = 0; r < out_.plans.size(); ++r) sum_up(r);
    return std::move(out_);
  }

 private:
  struct moment : arrival {
    bool operator>(const moment& o) const { return std::tie(at_s, rank, id) > std::tie(o.at_s, o.rank, o.id); }
  };

  void free_line(uint32_t r, uint32_t id, double at_s) { waits_.free_line(r, id, at_s, start_); }
  void end(uint32_t r, const instruction& x, timed t) {
    out_.ranks[r].instructions[x.id] = t;
    if (!ends_late(x)) out_.step_s = std::max(out_.step_s, t.end_s);
    waits_.end(r, x, t.end_s, start_);
  }

  void play(const moment& m) {
    const auto& x = waits_.at(m.rank, m.id);
    if (x.lane == lane::fabric) return post(m, x);
    const double seconds = price_(*out_.plans[m.rank], x);
    // A checkpoint's write does not occupy the writer lane while its bytes move: the ranks share one disk, and the step
    // does not wait for it.
    if (ends_late(x)) {
      const double moving = std::max(m.at_s, disk_free_);
      disk_free_ = moving + seconds * out_.stands_for[m.rank];
      free_line(m.rank, x.id, m.at_s);
      return end(m.rank, x, {m.at_s, moving, disk_free_});
    }
    if (x.lane == lane::io) {  // a rank's swaps start in order, and only one at a time moves bytes
      double& free = io_free_s_[m.rank];
      const double moving = std::max(m.at_s, free);
      free = moving + seconds;
      free_line(m.rank, x.id, m.at_s);
      return end(m.rank, x, {m.at_s, moving, free});
    }
    free_line(m.rank, x.id, m.at_s + seconds);
    end(m.rank, x, {m.at_s, m.at_s, m.at_s + seconds});
  }

  // Posts a rank's part of a collective. The rank starts the next instruction of the line without waiting for its end.
  void post(const moment& m, const instruction& x) {
    free_line(m.rank, x.id, m.at_s);
    posted_collective& here = waits_.collective_of(x);
    here.posted.push_back(m);
    if (!here.complete()) return;
    double moving = m.at_s + waits_.latency_of(x), seconds = 0;
    for (const auto& who : here.posted) {
      moving = std::max(moving, fabric_free_s_[who.rank]);
      seconds = std::max(seconds, price_(waits_.plan_of(who.rank), waits_.at(who.rank, who.id)));
    }
    for (const auto& who : here.posted) fabric_free_s_[who.rank] = moving + seconds;
    for (const auto& who : here.posted)
      end(who.rank, waits_.at(who.rank, who.id), {who.at_s, moving, moving + seconds});
  }

  void sum_up(uint32_t r) {
    auto& out = out_.ranks[r];
    const auto& p = *out_.plans[r];
    for (uint32_t l = 0; l < num_lanes; ++l) {
      double busy = 0;
      for (uint32_t id : p.lanes[l]) busy += out.instructions[id].end_s - out.instructions[id].moving_s;
      // not below 0: writes of a checkpoint may go on after the step
      out.idle_s[l] = std::max(0.0, out_.step_s - busy);
    }
    out.compute_s = out_.step_s - out.idle_s[static_cast<size_t>(lane::compute)];
    out.communication_s = out_.step_s - out.idle_s[static_cast<size_t>(lane::fabric)];
    const auto work = working_times(p, out);
    double hidden = 0;
    size_t w = 0;
    std::vector<timed> moves;  // start and end of each collective of the rank, which do not overlap each other
    for (uint32_t id : p.lanes[static_cast<size_t>(lane::fabric)]) moves.push_back(out.instructions[id]);
    std::ranges::sort(moves, {}, &timed::moving_s);
    for (const timed& x : moves) {
      while (w < work.size() && work[w].end_s <= x.moving_s) ++w;
      for (size_t i = w; i < work.size() && work[i].start_s < x.end_s; ++i)
        hidden += std::min(x.end_s, work[i].end_s) - std::max(x.moving_s, work[i].start_s);
    }
    out.exposed_s = std::max(0.0, out.communication_s - hidden);
  }

  /// Returns the times in which the compute or the shard lane worked, in order and without overlaps.
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

  const instruction_price& price_;
  wait_graph waits_;
  timeline out_;
  // [rank]: seconds at which the latest collective and the latest swap of the rank end.
  std::vector<double> fabric_free_s_, io_free_s_;
  std::priority_queue<moment, std::vector<moment>, std::greater<>> waiting_;
  const std::function<void(double, uint32_t, uint32_t)> start_ = [this](double at_s, uint32_t r, uint32_t id) {
    waiting_.push({{at_s, r, id}});
  };
  double disk_free_ = 0;
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

cost_model measured_model(const machine_costs& machine, cost_model disk) {
  disk.machine = machine;
  disk.flops_per_s = machine.product_flops_per_s;
  disk.copy_bytes_per_s = machine.copy_bytes_per_s;
  disk.latency_s = machine.wakeup_s;
  return disk;
}

cost_model card_costs(core::dtype parameter) {
  constexpr double of_products = 0.5, of_bytes = 0.75;
  const bool is_short = parameter == core::dtype::bf16 || parameter == core::dtype::f16;
  cost_model out;
  out.flops_per_s = of_products * (is_short ? 312e12 : parameter == core::dtype::f64 ? 9.7e12 : 19.5e12);
  out.device_bytes_per_s = of_bytes * 1935e9;
  out.link_bytes_per_s = of_bytes * 32e9;
  return out;
}

namespace {

/// True if the instruction copies bytes between host memory and device memory.
bool crosses(const rank_plan& p, const instruction& x) {
  const auto& tiers = p.options().tiers;
  const hidden_work work = row_of(x.kind).hidden;
  return work == hidden_work::gathers ? tiers.parameters != tier::device
                                      : work == hidden_work::reductions && tiers.updates_on_host();
}

double seconds_on_card(const rank_plan& p, const instruction& x, const cost_model& costs) {
  const double ranks = p.options().ranks(), bytes = static_cast<double>(touched_bytes(p, x));
  if (x.lane == lane::shard && p.options().tiers.updates_on_host()) return bytes / costs.copy_bytes_per_s;
  return ranks *
         (x.flops / costs.flops_per_s + bytes / (crosses(p, x) ? costs.link_bytes_per_s : costs.device_bytes_per_s));
}

}  // namespace

double predicted_seconds(const rank_plan& p, const instruction& x, const cost_model& costs) {
  const touched bytes = row_of(x.kind).bytes;
  if (bytes == touched::disk_written_late) return static_cast<double>(x.moved_bytes) / costs.disk_bytes_per_s;
  // divides the disk's rate by the number of ranks, because all ranks use the one disk at the same time
  if (bytes == touched::disk_read || bytes == touched::disk_written) {
    const double rate = bytes == touched::disk_read ? costs.disk_read_bytes_per_s : costs.disk_bytes_per_s;
    return costs.disk_latency_s + static_cast<double>(x.moved_bytes) * p.options().ranks() / rate;
  }
  if (is_priced_by_card(p, costs)) return seconds_on_card(p, x, costs);
  if (costs.machine.is_known()) return measured_terms_seconds(p, x, costs);
  return x.flops / costs.flops_per_s + static_cast<double>(touched_bytes(p, x)) / costs.copy_bytes_per_s;
}

timeline play(rank_plans ranks, const instruction_price& price, double latency_s, std::vector<uint32_t> stands_for) {
  if (ranks.empty()) return {};
  return player(ranks, price, latency_s, std::move(stands_for)).run();
}

timeline predict(rank_plans ranks, const cost_model& costs, std::vector<uint32_t> stands_for) {
  const auto price = [&costs](const rank_plan& p, const instruction& x) {
    return acts(x.guard, branch::not_skipped) ? predicted_seconds(p, x, costs) : 0;
  };
  return play(ranks, price, costs.latency_s, std::move(stands_for));
}

}  // namespace troupe::plan
