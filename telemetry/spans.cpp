#include "telemetry/spans.hpp"

#include <algorithm>
#include <cmath>

#include "plan/kinds.hpp"
#include "plan/stage_place.hpp"

namespace troupe::telemetry {

std::vector<rank_spans> spans_of(const plan::timeline& predicted) {
  const auto ns = [](double s) { return static_cast<int64_t>(std::llround(1e9 * s)); };
  std::vector<rank_spans> out;
  for (size_t r = 0; r < predicted.plans.size(); ++r) {
    auto& rank = out.emplace_back(rank_spans{.plan = predicted.plans[r], .spans = {}});
    for (const auto& x : predicted.ranks[r].instructions) rank.spans.push_back({ns(x.start_s), ns(x.end_s)});
    rank.told_others.assign(rank.spans.size(), false);
  }
  return out;
}

void shift(rank_spans& r, const clock_shift& by) {
  const auto move = [&](interval& i) {
    if (i.start_ns != 0) i.start_ns += by.offset_ns;  // a time of 0 means that the instruction has not run
    if (i.end_ns != 0) i.end_ns += by.offset_ns;
  };
  for (auto& i : r.spans) move(i);
  for (auto& lane : r.moved)
    for (auto& i : lane) move(i);
  r.clock = by;
}

std::vector<interval> joined(std::vector<interval> v) {
  std::sort(v.begin(), v.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  std::vector<interval> out;
  for (const auto& i : v) {
    if (!out.empty() && i.start_ns <= out.back().end_ns)
      out.back().end_ns = std::max(out.back().end_ns, i.end_ns);
    else
      out.push_back(i);
  }
  return out;
}

int64_t length_ns(const std::vector<interval>& joined) {
  int64_t n = 0;
  for (const auto& i : joined) n += i.length_ns();
  return n;
}

int64_t common_length_ns(const std::vector<interval>& a, const std::vector<interval>& b) {
  int64_t n = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    n += std::max<int64_t>(0, std::min(a[i].end_ns, b[j].end_ns) - std::max(a[i].start_ns, b[j].start_ns));
    a[i].end_ns < b[j].end_ns ? ++i : ++j;
  }
  return n;
}

// Matches the instructions of a collective by communicator and sequence number, not by instruction id: plans of ranks
// differ, so one collective has a different instruction id on each rank.
posted_times::posted_times(std::span<const rank_spans> ranks) {
  if (ranks.empty()) return;
  size_t n = 0;
  for (size_t c = 0; c < ranks.front().plan->num_collectives.size(); ++c) {
    base_.push_back(n);
    uint32_t collectives = 0;  // number of collectives on communicator `c`; ranks that are not members have 0
    for (const auto& r : ranks) collectives = std::max(collectives, r.plan->num_collectives[c]);
    n += collectives;
  }
  at_ns_.assign(n, 0);
  for (const auto& r : ranks)
    for (uint32_t id : r.plan->lanes[static_cast<size_t>(plan::lane::fabric)]) {
      const auto& x = r.plan->instructions[id];
      auto& posted = at_ns_[base_[x.communicator] + x.sequence];
      posted = std::max(posted, r.spans[id].start_ns);
    }
}

interval moving(const rank_spans& rank, uint32_t id, const posted_times& posted) {
  const interval& span = rank.spans[id];
  return {std::min(posted.of(rank.plan->instructions[id]), span.end_ns), span.end_ns};
}

std::vector<size_t> stage_leaders(std::span<const rank_spans> ranks) {
  if (ranks.empty()) return {};
  const auto& l = *ranks.front().plan->layout;
  if (plan::pipeline_ranks(l) == 1) return {0};
  std::vector<size_t> out;
  for (size_t r = 0; r < ranks.size(); ++r)
    if (plan::leads_its_stage(l, ranks[r].plan->rank)) out.push_back(r);
  return out;
}

namespace {

constexpr double step_breakdown::*timers[] = {&step_breakdown::forward_ms,
                                              &step_breakdown::backward_inner_ms,
                                              &step_breakdown::backward_allreduce_ms,
                                              &step_breakdown::backward_ms,
                                              &step_breakdown::step_ms,
                                              &step_breakdown::batch_input_ms,
                                              &step_breakdown::pipe_send_grad_ms,
                                              &step_breakdown::pipe_send_output_ms,
                                              &step_breakdown::pipe_recv_grad_ms,
                                              &step_breakdown::pipe_recv_input_ms};

}  // namespace

step_breakdown& step_breakdown::operator+=(const step_breakdown& x) {
  for (const auto timer : timers) this->*timer += x.*timer;
  return *this;
}

step_breakdown step_breakdown::operator/(double n) const {
  step_breakdown out = *this;
  for (const auto timer : timers) out.*timer /= n;
  return out;
}

step_breakdown break_down(std::span<const rank_spans> ranks, size_t r) {
  std::vector<interval> forward, backward, reduction, either, step, loads;
  std::vector<interval> sends[2], receives[2];  // [0]: times of transfers of activations; [1]: of their gradients
  const posted_times posted(ranks);
  for (const auto& x : ranks[r].plan->instructions) {
    const interval whole = ranks[r].spans[x.id];
    switch (plan::row_of(x.kind).timer) {
      case plan::timer::untimed:
        break;  // DeepSpeed has no timer for instructions of this kind
      case plan::timer::forward:
        forward.push_back(whole);
        break;
      case plan::timer::backward:
        backward.push_back(whole);
        either.push_back(whole);
        break;
      case plan::timer::reduction:
        reduction.push_back(moving(ranks[r], x.id, posted));
        either.push_back(reduction.back());
        break;
      case plan::timer::load:
        loads.push_back(whole);
        break;
      case plan::timer::send:
        sends[x.use == plan::use::forward ? 0 : 1].push_back(moving(ranks[r], x.id, posted));
        break;
      case plan::timer::receive:
        receives[x.use == plan::use::forward ? 0 : 1].push_back(moving(ranks[r], x.id, posted));
        break;
      case plan::timer::step:
        step.push_back(x.lane == plan::lane::fabric ? moving(ranks[r], x.id, posted) : whole);
        break;
    }
  }
  const auto ms = [](std::vector<interval> v) { return double(length_ns(joined(std::move(v)))) / 1e6; };
  return {ms(std::move(forward)),     ms(std::move(backward)),   ms(std::move(reduction)), ms(std::move(either)),
          ms(std::move(step)),        ms(std::move(loads)),      ms(std::move(sends[0])),  ms(std::move(sends[1])),
          ms(std::move(receives[0])), ms(std::move(receives[1]))};
}

}  // namespace troupe::telemetry
