// Owns the set-up shared by tests of actors: plans of a small model, step contexts, executors that follow a test's
// script, and a company (all actors of one process) on real threads.
#pragma once

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/company.hpp"
#include "actors/hands/fabric_executor.hpp"
#include "actors/rank_report.hpp"
#include "plan/layout/communicators.hpp"
#include "tests/plan/samples.hpp"

namespace troupe::actors {

inline bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// Returns a small model's training plans that gather, release, reduce, vote and update.
inline plan::shared_plans small_plans(uint32_t ranks, uint32_t stage = 3, uint32_t accumulation = 1) {
  return plan::plans_of(plan::chain_table({3000, 6000, 3000}), plan::small_options(ranks, stage, accumulation));
}

inline std::shared_ptr<step_context> context_of(std::shared_ptr<const plan::rank_plan> p, const step_order& order = {},
                                                const job::scaling_rules& rules = {}) {
  return std::make_shared<step_context>(std::make_shared<const program>(std::move(p)), order, rules);
}

/// Step contexts of all ranks, indexed by rank. Tests write the times and the votes in them directly.
using run_contexts = std::vector<std::shared_ptr<step_context>>;
inline std::vector<telemetry::rank_spans> spans_of(const run_contexts& ranks) {
  std::vector<telemetry::rank_spans> out;
  for (const auto& c : ranks) out.push_back(spans_of(*c));
  return out;
}
inline rank_reports reports_of(const run_contexts& ranks) {
  rank_reports out;
  for (const auto& c : ranks) out.push_back(report_of(*c));
  return out;
}

/// Returns the first instruction of the plan that satisfies `wanted`; fails the test if there is none.
const plan::instruction& find_instruction(const plan::rank_plan& p, auto wanted) {
  const auto it = std::find_if(p.instructions.begin(), p.instructions.end(), wanted);
  BOOST_REQUIRE(it != p.instructions.end());
  return *it;
}

/// Function called before each instruction of any lane but control. It returns `done` to end the instruction at once,
/// `pending` to end it after a later wake-up message, or an error to fail it.
using script = std::function<core::result<progress>(const step_context&, const plan::instruction&)>;

/// Executor that ends instructions at once, without work. On the fabric lane it waits for the other ranks but moves no
/// data.
class scripted_executor final : public executor {
 public:
  scripted_executor(script says, memberships communicators)
      : says_(std::move(says)), communicators_(std::move(communicators)) {}

  void begin(std::shared_ptr<step_context> context) override { context_ = std::move(context); }
  core::result<progress> start(const plan::instruction& x) override {
    auto first = says_ ? says_(*context_, x) : core::result<progress>(progress::done);
    if (!first || *first == progress::pending || communicators_.empty()) return first;
    fabric::request r;
    r.id = describe_collective(*context_, x, {}).id;
    return meet(*communicators_[x.communicator], r);
  }
  core::result<std::optional<uint32_t>> advance(uint64_t number) override {
    if (communicators_.empty()) return static_cast<uint32_t>(number);
    return go_on(communicators_, *context_, number);
  }
  void abort(const core::error& why) override { abort_all(communicators_, why); }

 private:
  script says_;
  memberships communicators_;  // communicators of the fabric lane; empty on the other lanes
  std::shared_ptr<step_context> context_;
};

/// Returns the parts of ranks whose executors follow the script. The ranks share a communicator and see each other's
/// progress.
inline std::vector<rank_parts> scripted_ranks(const plan::shared_plans& plans, const script& says, const patience& p) {
  const auto ranks = static_cast<uint32_t>(plans.size());
  const auto groups = in_process_groups(*plans.front()->layout);
  const auto pulses = std::make_shared<pulse_board>(ranks);
  std::vector<rank_parts> parts(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    auto& x = parts[r];
    const auto joined = join_fabric(x, r, plans.front()->layout->communicators, join_of(groups));
    x.setup.programs = std::make_shared<const rank_programs>(rank_programs{std::make_shared<const program>(plans[r])});
    x.setup.patience = p;
    x.setup.pulses = pulses;
    x.lanes.resize(num_seats(*plans[r]));
    for (uint32_t l = 1; l < x.lanes.size(); ++l)
      x.lanes[l] = [says, mine = l == seat_of(plan::lane::fabric) ? joined : memberships{}]() mutable {
        return std::make_unique<scripted_executor>(says, std::move(mine));
      };
  }
  return parts;
}

inline loader_setup empty_batches() {
  loader_setup loader;
  loader.cut = [](const next_batch&) { return std::make_shared<const data::batch>(); };
  return loader;
}

/// Returns limits for waits: `limit` for every wait, except that waits for disks and for the loader have no limit.
inline patience at_most(std::chrono::nanoseconds limit) { return {limit, limit, limit, {}}; }

/// Owns a company (all actors of one process) whose ranks have threads of their own, as in production. The destructor
/// ends the threads.
class threaded_company {
 public:
  explicit threaded_company(plan::shared_plans plans, const script& says = {},
                            const patience& p = at_most(std::chrono::seconds(5)))
      : threaded_company(plans, scripted_ranks(plans, says, p), empty_batches()) {}
  threaded_company(plan::shared_plans plans, std::vector<rank_parts> parts, loader_setup loader)
      : plans_(std::move(plans)) {
    actors_ = assemble(system_, std::move(parts), std::move(loader), {}, lane_threads::own).value();
  }
  ~threaded_company() { dismiss(*actors_); }

  [[nodiscard]] company& actors() { return *actors_; }
  [[nodiscard]] const lane_actor& lane(uint32_t rank, plan::lane l) const {
    return actors_->ranks[rank]->lanes[static_cast<size_t>(l)];
  }

  /// Runs the plans once and returns the outcome. Calls `meanwhile` after the order has been sent. If there is no
  /// outcome, `unanswered` receives the reason; if `unanswered` is null, the test fails.
  run_outcome run(const std::function<void()>& meanwhile = {}, std::string* unanswered = nullptr,
                  std::shared_ptr<save_target> save = nullptr) {
    auto order = std::make_shared<step_order>();
    order->run = ++runs_;
    order->step = runs_ - 1;
    order->collectives_before = collectives_;
    order->save = std::move(save);
    plan::add_collectives(collectives_, plans_);
    run_outcome out;
    caf::scoped_actor self{system_};
    auto asked =
        self->request(actors_->supervisor, std::chrono::seconds(20), run_plan{plan::plan_choice::train, order});
    if (meanwhile) meanwhile();
    asked.receive([&](run_outcome& o) { out = std::move(o); },
                  [&](caf::error& e) {
                    if (unanswered == nullptr) BOOST_FAIL("no answer: " << system_.render(e));
                    *unanswered = system_.render(e);
                  });
    return out;
  }

 private:
  struct config : caf::actor_system_config {
    config() {
      add_message_types<caf::id_block::troupe>();
      set("scheduler.policy", caf::atom("sharing"));
      set("scheduler.max-threads", size_t{2});
    }
  };

  plan::shared_plans plans_;
  config config_;
  caf::actor_system system_{config_};
  std::shared_ptr<company> actors_;
  uint64_t runs_ = 0;
  std::vector<uint64_t> collectives_;  // [communicator]: number of collectives in all runs so far
};

}  // namespace troupe::actors
