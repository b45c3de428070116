#include "plan/choose/shared_cores.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

namespace troupe::plan {
namespace {

/// Plays all ranks on two clocks: seconds, and work, of which every running task has done as much as any other since it
/// began. With n tasks and c cores a second is min(1, c / n) of work.
class player {
 public:
  player(rank_plans ranks, const cost_model& costs, uint32_t cores, std::vector<uint32_t> stands_for)
      : costs_(costs), cores_(cores), plans_(ranks), stands_for_(std::move(stands_for)), ranks_(ranks.size()) {
    stands_for_.resize(ranks.size(), 1);
    meetings_.resize(ranks[0]->layout->communicators.size());
    for (uint32_t r = 0; r < ranks.size(); ++r) prepare(r);
  }

  double run() {
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      for (uint32_t id = 0; id < ranks_[r].unmet.size(); ++id)
        if (ranks_[r].unmet[id] == 0) at(0, {what::start, r, id});
    while (!timers_.empty() || !running_.empty()) {
      const bool timer_first = running_.empty() || (!timers_.empty() && timers_.top().at <= next_end_s());
      if (timer_first) {
        const event e = timers_.top();
        timers_.pop();
        pass(e.at - now_s_);
        now_s_ = std::max(now_s_, e.at);
        handle(e);
      } else {
        const event e = running_.top();
        const double end_s = next_end_s();
        running_.pop();
        work_ = std::max(work_, e.at);
        now_s_ = end_s;
        tasks_ -= stands_for_[e.rank];
        finish(e.rank, instruction_of(e));
      }
    }
    return step_s_;
  }

 private:
  enum class what : uint8_t { start, begin_meeting, end };
  struct event {
    double at = 0;  // seconds of a timer, work of a task
    std::tuple<what, uint32_t, uint32_t> of;
    uint32_t rank = 0, id = 0;
    bool operator>(const event& o) const { return std::tie(at, of) > std::tie(o.at, o.of); }
  };
  struct rank_state {
    std::vector<uint32_t> unmet, behind;            // [id]: what it waits for; the next in its line
    std::vector<double> ready_s;                    // [id]
    std::vector<std::vector<uint32_t>> dependents;  // [id]
    bool moves = false;                             // a collective
    double io_free_s = 0;
  };
  struct meeting {
    std::vector<std::pair<uint32_t, uint32_t>> posted;  // rank, instruction
    uint32_t members = 0, moving = 0;
  };
  using queue = std::priority_queue<event, std::vector<event>, std::greater<>>;

  [[nodiscard]] const instruction& instruction_of(const event& e) const { return plans_[e.rank]->instructions[e.id]; }
  [[nodiscard]] double rate() const { return std::min(1.0, double(cores_) / double(std::max<uint64_t>(1, tasks_))); }
  [[nodiscard]] double next_end_s() const { return now_s_ + std::max(0.0, running_.top().at - work_) / rate(); }
  void pass(double seconds) { work_ += std::max(0.0, seconds) * rate(); }
  void at(double seconds, std::tuple<what, uint32_t, uint32_t> of) {
    timers_.push({seconds, of, std::get<1>(of), std::get<2>(of)});
  }

  void prepare(uint32_t r) {
    const auto& p = *plans_[r];
    auto& s = ranks_[r];
    const size_t n = p.instructions.size();
    s.unmet.assign(n, 0);
    s.behind.assign(n, none);
    s.ready_s.assign(n, 0);
    s.dependents.resize(n);
    for (const auto& x : p.instructions)
      for (const uint32_t on : x.after) {
        s.dependents[on].push_back(x.id);
        ++s.unmet[x.id];
      }
    std::vector<uint32_t> last(num_lanes + meetings_.size(), none);
    for (const auto& order : p.lanes)
      for (const uint32_t id : order) {
        const auto& x = p.instructions[id];
        const size_t line = x.lane == lane::fabric ? num_lanes + x.communicator : static_cast<size_t>(x.lane);
        if (last[line] != none) {
          s.behind[last[line]] = id;
          ++s.unmet[id];
        }
        last[line] = id;
        if (x.lane == lane::fabric) ++meeting_of(x).members;
      }
  }
  meeting& meeting_of(const instruction& x) {
    auto& all = meetings_[x.communicator];
    if (all.size() <= x.sequence) all.resize(x.sequence + 1);
    return all[x.sequence];
  }

  void met(uint32_t r, uint32_t id, double at_s) {
    auto& s = ranks_[r];
    s.ready_s[id] = std::max(s.ready_s[id], at_s);
    if (--s.unmet[id] == 0) at(s.ready_s[id], {what::start, r, id});
  }
  void free_line(uint32_t r, uint32_t id) {
    if (const uint32_t next = ranks_[r].behind[id]; next != none) met(r, next, now_s_);
  }
  void ended(uint32_t r, const instruction& x) {
    if (x.kind != kind::write) step_s_ = std::max(step_s_, now_s_);
    for (const uint32_t d : ranks_[r].dependents[x.id])
      met(r, d, now_s_ + (plans_[r]->instructions[d].lane == x.lane ? 0 : costs_.latency_s));
  }

  void handle(const event& e) {
    const auto& x = instruction_of(e);
    switch (std::get<0>(e.of)) {
      case what::start:
        return start(e.rank, x);
      case what::begin_meeting:
        waiting_.emplace_back(x.communicator, x.sequence);
        return begin_meetings();
      case what::end:
        return ended(e.rank, x);
    }
  }

  void start(uint32_t r, const instruction& x) {
    if (x.lane == lane::fabric) {
      free_line(r, x.id);
      auto& here = meeting_of(x);
      here.posted.emplace_back(r, x.id);
      if (here.posted.size() < here.members) return;
      const bool alone = plans_[r]->layout->communicators[x.communicator].members.size() == 1;
      return at(now_s_ + (alone ? 0 : costs_.latency_s), {what::begin_meeting, r, x.id});
    }
    const double seconds = price(r, x);
    if (x.lane == lane::io || x.kind == kind::write) {  // handed over, then moved one after the other
      double& free_s = x.kind == kind::write ? disk_free_s_ : ranks_[r].io_free_s;
      free_s = std::max(now_s_, free_s) + seconds * (x.kind == kind::write ? stands_for_[r] : 1);
      free_line(r, x.id);
      return at(free_s, {what::end, r, x.id});
    }
    compute(r, x, seconds);
  }
  [[nodiscard]] double price(uint32_t r, const instruction& x) const {
    return acts(x.guard, branch::not_skipped) ? predicted_seconds(*plans_[r], x, costs_) : 0;
  }
  void compute(uint32_t r, const instruction& x, double seconds) {
    tasks_ += stands_for_[r];
    running_.push({work_ + seconds, {what::end, r, x.id}, r, x.id});
  }

  void finish(uint32_t r, const instruction& x) {
    if (x.lane != lane::fabric) {
      free_line(r, x.id);
      return ended(r, x);
    }
    auto& here = meeting_of(x);
    if (--here.moving > 0) return;
    for (const auto& [rank, id] : here.posted) ranks_[rank].moves = false;
    for (const auto& [rank, id] : here.posted) ended(rank, plans_[rank]->instructions[id]);
    begin_meetings();
  }

  // Those whose members move nothing else, in the order in which they became complete.
  void begin_meetings() {
    for (auto i = waiting_.begin(); i != waiting_.end();) {
      auto& here = meetings_[i->first][i->second];
      if (std::ranges::any_of(here.posted, [&](const auto& who) { return ranks_[who.first].moves; })) {
        ++i;
        continue;
      }
      here.moving = static_cast<uint32_t>(here.posted.size());
      for (const auto& [rank, id] : here.posted) {
        const auto& x = plans_[rank]->instructions[id];
        ranks_[rank].moves = true;
        compute(rank, x, price(rank, x));
      }
      i = waiting_.erase(i);
    }
  }

  const cost_model& costs_;
  const uint32_t cores_;
  rank_plans plans_;
  std::vector<uint32_t> stands_for_;
  std::vector<rank_state> ranks_;
  std::vector<std::vector<meeting>> meetings_;          // [communicator][sequence]
  std::vector<std::pair<uint32_t, uint32_t>> waiting_;  // complete meetings, by communicator and sequence
  queue timers_, running_;
  uint64_t tasks_ = 0;  // running, of all ranks
  double now_s_ = 0, work_ = 0, step_s_ = 0, disk_free_s_ = 0;
};

}  // namespace

double predict_on_cores(rank_plans ranks, const cost_model& costs, uint32_t cores, std::vector<uint32_t> stands_for) {
  if (ranks.empty()) return 0;
  return player(ranks, costs, std::max(1U, cores), std::move(stands_for)).run();
}

}  // namespace troupe::plan
