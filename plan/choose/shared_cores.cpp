#include "plan/choose/shared_cores.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "plan/choose/waits.hpp"
#include "plan/kinds.hpp"

namespace troupe::plan {
namespace {

/// Simulates all ranks on two clocks: seconds, and work. A task is an instruction that needs a core. All running tasks
/// advance by the same amount of work: with n tasks and c cores, a second is min(1, c / n) of work.
class player {
 public:
  player(rank_plans ranks, const cost_model& costs, uint32_t cores, std::vector<uint32_t> stands_for)
      : costs_(costs),
        cores_(cores),
        waits_(ranks, costs.latency_s),
        stands_for_(std::move(stands_for)),
        moves_(ranks.size()),
        io_free_s_(ranks.size()) {
    stands_for_.resize(ranks.size(), 1);
  }

  double run() {
    waits_.begin(start_);
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
  enum class what : uint8_t { start, begin_collective, end };
  struct event {
    double at = 0;  // due time: seconds for a timer, amount of work for a task
    std::tuple<what, uint32_t, uint32_t> of;
    uint32_t rank = 0, id = 0;
    bool operator>(const event& o) const { return std::tie(at, of) > std::tie(o.at, o.of); }
  };
  using queue = std::priority_queue<event, std::vector<event>, std::greater<>>;

  [[nodiscard]] const instruction& instruction_of(const event& e) const { return waits_.at(e.rank, e.id); }
  [[nodiscard]] double rate() const { return std::min(1.0, double(cores_) / double(std::max<uint64_t>(1, tasks_))); }
  [[nodiscard]] double next_end_s() const { return now_s_ + std::max(0.0, running_.top().at - work_) / rate(); }
  void pass(double seconds) { work_ += std::max(0.0, seconds) * rate(); }
  void at(double seconds, std::tuple<what, uint32_t, uint32_t> of) {
    timers_.push({seconds, of, std::get<1>(of), std::get<2>(of)});
  }

  void free_line(uint32_t r, uint32_t id) { waits_.free_line(r, id, now_s_, start_); }
  void ended(uint32_t r, const instruction& x) {
    if (!ends_late(x)) step_s_ = std::max(step_s_, now_s_);
    waits_.end(r, x, now_s_, start_);
  }

  void handle(const event& e) {
    const auto& x = instruction_of(e);
    switch (std::get<0>(e.of)) {
      case what::start:
        return start(e.rank, x);
      case what::begin_collective:
        waiting_.push_back(&waits_.collective_of(x));
        return begin_collectives();
      case what::end:
        return ended(e.rank, x);
    }
  }

  void start(uint32_t r, const instruction& x) {
    if (x.lane == lane::fabric) {
      free_line(r, x.id);
      auto& here = waits_.collective_of(x);
      here.posted.push_back({now_s_, r, x.id});
      if (!here.complete()) return;
      return at(now_s_ + waits_.latency_of(x), {what::begin_collective, r, x.id});
    }
    const double seconds = price(r, x);
    // A rank's swaps and checkpoint writes do not occupy their lane while bytes move; only one of them moves bytes at a
    // time.
    if (const bool late = ends_late(x); late || x.lane == lane::io) {
      double& free_s = late ? disk_free_s_ : io_free_s_[r];
      free_s = std::max(now_s_, free_s) + seconds * (late ? stands_for_[r] : 1);
      free_line(r, x.id);
      return at(free_s, {what::end, r, x.id});
    }
    compute(r, x, seconds);
  }
  [[nodiscard]] double price(uint32_t r, const instruction& x) const {
    return acts(x.guard, branch::not_skipped) ? predicted_seconds(waits_.plan_of(r), x, costs_) : 0;
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
    auto& here = waits_.collective_of(x);
    if (--here.moving > 0) return;
    for (const auto& who : here.posted) moves_[who.rank] = false;
    for (const auto& who : here.posted) ended(who.rank, waits_.at(who.rank, who.id));
    begin_collectives();
  }

  // Starts each collective that all its members have posted, unless one of them is still moving bytes of another
  // collective. Collectives start in the order in which their last member posted them.
  void begin_collectives() {
    for (auto i = waiting_.begin(); i != waiting_.end();) {
      posted_collective& here = **i;
      if (std::ranges::any_of(here.posted, [&](const auto& who) { return moves_[who.rank]; })) {
        ++i;
        continue;
      }
      here.moving = static_cast<uint32_t>(here.posted.size());
      for (const auto& who : here.posted) {
        const auto& x = waits_.at(who.rank, who.id);
        moves_[who.rank] = true;
        compute(who.rank, x, price(who.rank, x));
      }
      i = waiting_.erase(i);
    }
  }

  const cost_model& costs_;
  const uint32_t cores_;
  wait_graph waits_;
  std::vector<uint32_t> stands_for_;
  std::vector<bool> moves_;                  // [rank]: true while the rank moves bytes of a collective
  std::vector<double> io_free_s_;            // [rank]: seconds at which the rank's disk becomes free
  std::vector<posted_collective*> waiting_;  // collectives that all members have posted but not begun, in that order
  queue timers_, running_;
  uint64_t tasks_ = 0;  // number of running tasks of all ranks
  double now_s_ = 0, work_ = 0, step_s_ = 0, disk_free_s_ = 0;
  const std::function<void(double, uint32_t, uint32_t)> start_ = [this](double at_s, uint32_t r, uint32_t id) {
    at(at_s, {what::start, r, id});
  };
};

}  // namespace

double predict_on_cores(rank_plans ranks, const cost_model& costs, uint32_t cores, std::vector<uint32_t> stands_for) {
  if (ranks.empty()) return 0;
  return player(ranks, costs, std::max(1U, cores), std::move(stands_for)).run();
}

}  // namespace troupe::plan
