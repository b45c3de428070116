// Checks the log of a simulated run against the rules that every run must follow.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "actors/rank_report.hpp"
#include "actors/sim/modelled_executor.hpp"
#include "actors/sim/sim.hpp"
#include "core/text.hpp"

namespace troupe::actors {
namespace {

constexpr size_t never = SIZE_MAX;
/// Nanoseconds of virtual time that the last message deliveries of a failed run may take, each of which advances the
/// clock by one nanosecond.
constexpr int64_t rest_slack_ns = 10'000;

/// Positions in the simulation's log at which an instruction started and ended.
struct moment {
  size_t start = never, end = never;
};

class run_checker {
 public:
  run_checker(const shared_rank_plans& plans, const std::vector<uint32_t>& acted_by, const sim_run& run,
              uint64_t number, uint32_t window)
      : plans_(plans),
        acted_by_(acted_by),
        run_(run),
        number_(number),
        window_(window),
        moments_(plans.size()),
        ended_(plans.size()) {
    for (size_t r = 0; r < plans.size(); ++r)
      if (acts(r)) moments_[r].resize(plans[r]->instructions.size());
    if (run.outcome.ranks)
      for (const auto& report : *run.outcome.ranks) reports_[report.rank] = &report;
  }

  core::result<void> take(const sim_event& e, size_t index) {
    if (e.rank >= plans_.size() || e.id >= moments_[e.rank].size())
      return fail("an event names an instruction that the plan does not have");
    const auto& p = *plans_[e.rank];
    const auto& x = p.instructions[e.id];
    auto& m = moments_[e.rank][e.id];
    auto& ended = ended_[e.rank].in_lane[static_cast<size_t>(x.lane)];
    if (e.end) {
      if (m.start == never || m.end != never) return fail(e.rank, e.id, "ended without having started, or twice");
      m.end = index;
      ++ended;
      if (x.lane == plan::lane::fabric) --ended_[e.rank].met[x.communicator].under_way;
      return {};
    }
    if (m.start != never) return fail(e.rank, e.id, "started twice");
    m.start = index;
    auto& next = ended_[e.rank].started[static_cast<size_t>(x.lane)];
    if (!is_next(e.rank, x)) return fail(e.rank, e.id, "started out of its lane's order");
    // A collective of a communicator that has no other one running may start even if the window is full (see
    // sequencer).
    const bool may_wait = x.lane != plan::lane::fabric || ended_[e.rank].met[x.communicator].under_way > 1;
    if (may_wait && next >= ended + window_) return fail(e.rank, e.id, "started beyond the window");
    if (x.lane != plan::lane::fabric && x.lane != plan::lane::io && ended != next)
      return fail(e.rank, e.id, "started before its predecessor had ended");
    ++next;
    return check_dependencies(e, x);
  }

  core::result<void> finish() {
    const bool complete = !run_.outcome.failure;
    for (uint32_t r = 0; r < plans_.size(); ++r) {
      if (!acts(r)) continue;
      for (const auto& x : plans_[r]->instructions) {
        if (complete && x.lane != plan::lane::control && moments_[r][x.id].end == never)
          return fail(r, x.id, "never ended in a run that ended well");
        if (complete && x.lane == plan::lane::control && span_of(r, x.id).end_ns == 0)
          return fail(r, x.id, "never ended");
      }
    }
    return check_collectives();
  }

 private:
  [[nodiscard]] bool acts(size_t r) const { return acted_by_.empty() || acted_by_[r] == r; }

  struct counts {
    uint32_t started[plan::num_lanes] = {}, in_lane[plan::num_lanes] = {};
    struct line {
      uint32_t started = 0, under_way = 0;
    };
    std::map<uint32_t, line> met;  // [communicator]: counts of the communicator's collectives
  };

  // True if `x` is the next instruction to start in its lane; on the fabric lane, the next of its communicator. Counts
  // a collective as started.
  bool is_next(uint32_t r, const plan::instruction& x) {
    if (x.lane == plan::lane::fabric) {
      auto& met = ended_[r].met[x.communicator];
      ++met.under_way;
      return met.started++ == x.sequence;
    }
    const auto& order = plans_[r]->lanes[static_cast<size_t>(x.lane)];
    const uint32_t next = ended_[r].started[static_cast<size_t>(x.lane)];
    return next < order.size() && order[next] == x.id;
  }

  const telemetry::interval& span_of(uint32_t r, uint32_t id) const { return reports_.at(r)->spans.spans[id]; }

  core::result<void> check_dependencies(const sim_event& e, const plan::instruction& x) {
    const auto& p = *plans_[e.rank];
    for (uint32_t on : x.after) {
      // The control lane's instructions are not in the log; their times are known only if the run ended well.
      if (p.instructions[on].lane != plan::lane::control) {
        if (moments_[e.rank][on].end == never)
          return fail(e.rank, e.id, "started before " + p.describe(on) + " had ended");
      } else if (!run_.outcome.failure && span_of(e.rank, on).end_ns >= e.time_ns) {
        return fail(e.rank, e.id, "started before " + p.describe(on) + " had ended");
      }
    }
    return {};
  }

  core::result<void> check_collectives() {
    // [communicator, sequence]: start and end of the collective on each of its members
    std::map<std::pair<uint32_t, uint32_t>, std::vector<moment>> all;
    for (uint32_t r = 0; r < plans_.size(); ++r) {
      if (!acts(r)) continue;
      for (const auto& x : plans_[r]->instructions)
        if (x.sequence != plan::none) all[{x.communicator, x.sequence}].push_back(moments_[r][x.id]);
    }
    for (const auto& [which, members] : all) {
      const auto& communicator = layout().communicators[which.first];
      const auto wanted = std::ranges::count_if(communicator.members, [&](uint32_t r) { return acts(r); });
      size_t last_start = 0, first_end = never;
      for (const auto& m : members) {
        last_start = std::max(last_start, m.start);
        first_end = std::min(first_end, m.end);
      }
      if (first_end != never && (last_start > first_end || members.size() != static_cast<size_t>(wanted)))
        return fail(fmt::format("collective {} of \"{}\" ended on one rank before all had started it", which.second,
                                communicator.name));
    }
    return {};
  }

  [[nodiscard]] const plan::job_layout& layout() const {
    return *(*std::ranges::find_if(plans_, [](const auto& p) { return p != nullptr; }))->layout;
  }

  core::result<void> fail(uint32_t r, uint32_t id, const std::string& what) const {
    return fail(fmt::format("rank {}: {} {}", r, plans_[r]->describe(id), what));
  }
  core::result<void> fail(const std::string& what) const {
    return core::fail(error_kind::bug, fmt::format("run {}: {}", number_, what));
  }

  const shared_rank_plans& plans_;
  const std::vector<uint32_t>& acted_by_;
  const sim_run& run_;
  uint64_t number_;
  uint32_t window_;
  std::map<uint32_t, const rank_report*> reports_;  // [rank]: its report, if the run ended well
  std::vector<std::vector<moment>> moments_;        // start and end in the log, by rank and instruction id
  std::vector<counts> ended_;                       // counts of started and ended instructions, by rank
};

/// The error with which a run must end because of an injected fault.
struct demand {
  error_kind kind = error_kind::bug;
  std::string names;  ///< words that the error text must contain
};

/// Returns the error that fault `f` must cause; none if the run must end well.
std::optional<demand> demand_of(const sim_fault& f) {
  const std::string rank = fmt::format("rank {}", f.rank);
  switch (f.kind) {
    case sim_fault_kind::none:
    case sim_fault_kind::slow_lane:
    case sim_fault_kind::late_message:
    case sim_fault_kind::freeze_lane:
    case sim_fault_kind::freeze_rank:
    case sim_fault_kind::freeze_watcher:
    case sim_fault_kind::freeze_loader:
    case sim_fault_kind::freeze_disk:
    case sim_fault_kind::freeze_process:
      return std::nullopt;
    case sim_fault_kind::kill_rank:
      return demand{error_kind::peer_lost, rank};
    case sim_fault_kind::kill_lane:
      return demand{error_kind::peer_lost, rank};
    case sim_fault_kind::kill_agent:
      return demand{error_kind::peer_lost, "node agent"};
    case sim_fault_kind::kill_supervisor:
      return demand{error_kind::peer_lost, "supervisor"};
    case sim_fault_kind::kill_loader:
      return demand{error_kind::peer_lost, "loader"};
    case sim_fault_kind::executor_error:
      return demand{error_kind::io, "simulated: the executor refuses"};
    case sim_fault_kind::executor_exception:
      return demand{error_kind::bug, "simulated: the executor throws"};
    case sim_fault_kind::wrong_identity:
      return demand{error_kind::mismatch, "of another plan"};
    case sim_fault_kind::bad_vote:
      return demand{error_kind::mismatch, "disagree"};
    case sim_fault_kind::silence:
      return demand{asks_disk(f.lane) ? error_kind::stopped : error_kind::stalled, rank};
    case sim_fault_kind::cut_link:
      if (f.delay == std::chrono::nanoseconds::max()) return demand{error_kind::stalled, "rank "};
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

core::result<void> check_log(const std::vector<shared_rank_plans>& plans, const sim_result& result, uint32_t window,
                             const std::vector<uint32_t>& acted_by) {
  const auto are_plans = [&](plan::plan_choice which) {
    if (static_cast<size_t>(which) >= plans.size()) return false;
    const auto& here = plans[static_cast<size_t>(which)];
    if (!acted_by.empty() && acted_by.size() != here.size()) return false;
    for (size_t r = 0; r < here.size(); ++r)
      if (here[r] == nullptr && (acted_by.empty() || acted_by[r] == r)) return false;
    return true;
  };
  std::vector<run_checker> runs;
  for (const auto& run : result.runs)
    if (!are_plans(run.which))
      return core::refused(
          fmt::format("a simulated run: wanted the plans of its kind, {}, got none", static_cast<size_t>(run.which)));
  for (size_t i = 0; i < result.runs.size(); ++i)
    runs.emplace_back(plans[static_cast<size_t>(result.runs[i].which)], acted_by, result.runs[i], i + 1, window);
  for (size_t i = 0; i < result.log.size(); ++i) {
    const auto& e = result.log[i];
    if (e.run == 0 || e.run > runs.size())
      return core::fail(error_kind::bug, "an event names a run that was never ordered");
    TROUPE_TRY(runs[e.run - 1].take(e, i));
  }
  for (auto& r : runs) TROUPE_TRY(r.finish());
  return {};
}

core::result<void> check_ending(const sim_result& result, const sim_options& options, size_t num_ordered) {
  const auto bug = [](std::string text) { return core::fail(error_kind::bug, std::move(text)); };
  if (result.runs.empty()) return core::refused("a simulated run: wanted at least one that has ended, got none");
  const auto& last = result.runs.back();
  const auto& failure = last.outcome.failure;
  const auto wanted = demand_of(options.fault);
  if (!failure) {
    // a killed actor may have had nothing left to do; every other fault that happened must have had an effect
    const bool may_pass =
        options.fault.kind >= sim_fault_kind::kill_rank && options.fault.kind <= sim_fault_kind::kill_loader;
    if (result.fault_struck && wanted && !may_pass)
      return bug("the run ended well in spite of " + options.fault.describe());
    if (result.runs.size() != num_ordered)
      return bug(fmt::format("wanted {} runs, got {}", num_ordered, result.runs.size()));
    return {};
  }
  if (!result.fault_struck || !wanted) return bug("failed without a fault: " + failure->text);
  if (failure->kind != wanted->kind || failure->text.find(wanted->names) == std::string::npos)
    return bug("wanted an error that says '" + wanted->names + "', got '" + failure->text + "'");
  // A stall is detected at one of the four checks in `stall_after`, and one more check was needed to see its beginning;
  // 1.5 times the limit covers this.
  const bool silent = options.fault.kind == sim_fault_kind::silence;
  const double latency_s = std::chrono::duration<double>(options.latency_max).count();
  const double wanted_s = (silent ? 1.5 * last.patience_s : 0) + last.predicted_s * 4 + 100 * latency_s;
  const double took_s = last.seconds - result.fault_at_s;
  if (took_s > wanted_s)
    return bug("wanted the failure within " + core::text_of("%.6f", wanted_s) + " s, got it after " +
               core::text_of("%.6f", took_s) + " s");
  // After the failure of a run, the order to stop takes at most four times the longest message delay, and some slack,
  // to reach every rank; until then ranks may still start instructions.
  const int64_t at_rest_ns = last.ended_ns + 4 * options.latency_max.count() + rest_slack_ns;
  for (const auto& e : result.log)
    if (!e.end && e.time_ns > at_rest_ns)
      return bug(fmt::format("rank {} still starts instructions {} s after the failure", e.rank,
                             core::text_of("%.6f", double(e.time_ns - last.ended_ns) / 1e9)));
  return {};
}

}  // namespace troupe::actors
