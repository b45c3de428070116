// Runs production's supervisor, node agent, ranks, lanes and loader on one thread, over executors that do no work, so
// that only control remains. Torch, clocks and random numbers have no effect: two runs execute the same instructions.
#pragma once

#include <caf/scheduler/test_coordinator.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "actors/company.hpp"
#include "actors/hands/fabric_executor.hpp"
#include "plan/layout/communicators.hpp"

namespace troupe::actors {

/// Ends instructions at once. On the fabric lane it waits for the other ranks under production's identities, but moves
/// no data.
class idle_executor final : public executor {
 public:
  explicit idle_executor(memberships communicators) : communicators_(std::move(communicators)) {}

  void begin(std::shared_ptr<step_context> context) override { context_ = std::move(context); }
  core::result<progress> start(const plan::instruction& x) override {
    if (communicators_.empty()) return progress::done;
    auto r = describe_collective(*context_, x, {});
    r.op = fabric::operation::barrier;
    return meet(*communicators_[x.communicator], r);
  }
  core::result<std::optional<uint32_t>> advance(uint64_t number) override {
    return go_on(communicators_, *context_, number);
  }

 private:
  memberships communicators_;  // communicators of the fabric lane; empty on the other lanes
  std::shared_ptr<step_context> context_;
};

/// Owns one actor system without threads; `plans` contains a training plan for each rank.
class idle_company {
 public:
  explicit idle_company(const std::vector<std::shared_ptr<const plan::rank_plan>>& plans) {
    const auto groups = in_process_groups(*plans.front()->layout);
    std::vector<rank_parts> parts(plans.size());
    for (uint32_t r = 0; r < plans.size(); ++r) {
      auto& x = parts[r];
      const auto joined = join_fabric(x, r, plans.front()->layout->communicators, join_of(groups));
      x.setup.programs =
          std::make_shared<const rank_programs>(rank_programs{std::make_shared<const program>(plans[r])});
      x.lanes.resize(num_seats(*plans[r]));
      for (uint32_t l = 1; l < x.lanes.size(); ++l)
        x.lanes[l] = [held = static_cast<plan::lane>(l) == plan::lane::fabric ? joined : memberships{}] {
          return std::make_unique<idle_executor>(held);
        };
    }
    plans_ = plans;
    loader_setup loader;
    loader.cut = [batch = std::make_shared<const data::batch>()](const next_batch&) { return batch; };
    actors_ = assemble(system_, std::move(parts), std::move(loader), {}, lane_threads::scheduler).value();
  }
  ~idle_company() {
    dismiss(*actors_);
    actors_.reset();
    jobs().run();
    jobs().clock().cancel_all();
  }
  idle_company(const idle_company&) = delete;
  idle_company& operator=(const idle_company&) = delete;

  /// Runs one step of all ranks. Returns true if the step succeeded.
  bool step() {
    auto order = std::make_shared<step_order>();
    order->run = ++runs_;
    order->step = runs_ - 1;
    order->collectives_before = collectives_;
    plan::add_collectives(collectives_, plans_);
    auto well = std::make_shared<bool>(false);
    caf::scoped_actor self{system_};
    auto asked = self->request(actors_->supervisor, caf::infinite, run_plan{plan::plan_choice::train, order});
    jobs().run();
    if (self->mailbox().empty()) return false;
    asked.receive([&](run_outcome& o) { *well = !o.failure; }, [](caf::error&) {});
    return *well;
  }

 private:
  struct config : caf::actor_system_config {
    config() {
      add_message_types<caf::id_block::troupe>();
      set("scheduler.policy", caf::atom("testing"));
    }
  };
  caf::scheduler::test_coordinator& jobs() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  config config_;
  caf::actor_system system_{config_};
  std::shared_ptr<company> actors_;
  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;
  uint64_t runs_ = 0;
  std::vector<uint64_t> collectives_;  // [communicator]: number of collectives in all runs so far
};

}  // namespace troupe::actors
