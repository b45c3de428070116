// Tests the detection of stalls in whole ranks, on a clock that the test advances: which waits have a limit, how long
// it is, and the report.
#include <boost/test/unit_test.hpp>

#include "plan/layout/communicators.hpp"
#include "tests/actors/one_thread.hpp"
#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(watch)

using namespace troupe;
using namespace troupe::actors;
using namespace std::chrono_literals;

namespace {

/// Ranks that make progress only when the test calls them. One instruction is held until the test releases it.
struct ranks_on_hold {
  /// `last_shows`: if set, the last rank is in another process, and other ranks see only the progress that this
  /// function returns.
  explicit ranks_on_hold(plan::shared_plans which, const std::function<pulse()>& last_shows = {})
      : plans(std::move(which)) {
    patience p;
    p.stall_after = 5s;
    auto parts = scripted_ranks(
        plans,
        [this](const step_context& c, const plan::instruction& x) {
          const bool hold = c.plan().rank == held_rank && x.kind == held;
          if (hold) held_ids.push_back(x.id);
          return core::result<progress>(hold ? progress::pending : progress::done);
        },
        p);
    for (auto& x : parts) x.setup.tell = [this](const std::string& line) { told.push_back(line); };
    if (last_shows) {
      parts.front().setup.pulses->show(static_cast<uint32_t>(parts.size() - 1), last_shows);
      elsewhere = std::move(parts.back());
      parts.pop_back();
    }
    actors = assemble(world.system(), std::move(parts), empty_batches(), {}, lane_threads::scheduler).value();
  }
  ~ranks_on_hold() {
    dismiss(*actors);
    world.run();
  }

  void order() {
    answer.reset();
    auto what = std::make_shared<step_order>();
    what->run = ++runs;
    what->step = runs - 1;
    what->collectives_before = collectives;
    plan::add_collectives(collectives, plans);
    world.spawn([this, what, to = actors->supervisor](caf::event_based_actor* self) {
      self->set_error_handler([](caf::error&) {});
      self->request(to, caf::infinite, run_plan{plan::plan_choice::train, what}).then([this](run_outcome& o) {
        answer = std::move(o);
      });
    });
    world.run();
  }
  /// Ends the held instruction after `time`.
  void let_go(std::chrono::nanoseconds time = {}) {
    world.pass(time);
    const auto& lanes = actors->ranks[std::exchange(held_rank, UINT32_MAX)]->lanes;
    for (uint32_t id : std::exchange(held_ids, {}))
      post(lanes[static_cast<size_t>(plans[0]->instructions[id].lane)], wake{id});
    world.run();
  }
  void hold(uint32_t rank, plan::kind k) { held_rank = rank, held = k; }
  [[nodiscard]] bool ended_well() const { return answer && !answer->failure; }
  [[nodiscard]] std::string failure() const { return answer && answer->failure ? answer->failure->text : ""; }

  plan::shared_plans plans;
  plan::kind held = plan::kind::forward;
  uint32_t held_rank = UINT32_MAX;
  std::vector<uint32_t> held_ids;
  std::vector<std::string> told;
  uint64_t runs = 0;
  std::vector<uint64_t> collectives;  // [communicator]: number of collectives in all runs so far
  std::optional<run_outcome> answer;
  rank_parts elsewhere;
  one_thread world;
  std::shared_ptr<company> actors;
};

plan::shared_plans plans_that_save() {
  auto options = plan::small_options(2, 3);
  options.saving.on = true;
  return plan::plans_of(plan::chain_table({3000, 6000, 3000}), options);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_first_product_that_takes_longer_than_stall_after_ends_no_run) {
  ranks_on_hold c(small_plans(2));
  c.hold(1, plan::kind::forward);
  c.order();
  c.let_go(250s);
  BOOST_TEST(c.ended_well(), c.failure());
  BOOST_TEST(c.told.empty());
}

BOOST_AUTO_TEST_CASE(a_compute_instruction_that_never_ends_is_named_after_a_limit_that_follows_the_steps_before) {
  ranks_on_hold c(small_plans(2));
  c.hold(1, plan::kind::backward);
  c.order();
  c.let_go(2s);  // the longest instruction of this step, which sets the limit for the next, takes two seconds
  BOOST_REQUIRE(c.ended_well());
  c.hold(1, plan::kind::backward);
  c.order();
  c.world.pass(199s);
  BOOST_TEST(!c.answer.has_value());
  c.world.pass(10s);
  BOOST_REQUIRE(c.answer && c.answer->failure);
  BOOST_TEST((c.answer->failure->kind == core::error_kind::stalled));
  BOOST_TEST(says(c.failure(), "nothing has ended for 20"), c.failure());
  BOOST_TEST((says(c.failure(), "compute lane is in backward") || says(c.failure(), "and waits for rank 1")),
             c.failure());
}

BOOST_AUTO_TEST_CASE(before_the_first_step_a_compute_instruction_has_five_minutes) {
  ranks_on_hold c(small_plans(2));
  c.hold(0, plan::kind::update);
  c.order();
  c.world.pass(300s);
  BOOST_TEST(!c.answer.has_value());
  c.world.pass(10s);
  BOOST_TEST(says(c.failure(), "nothing has ended for 30"), c.failure());
}

BOOST_AUTO_TEST_CASE(a_disk_that_pauses_makes_the_run_wait_and_the_host_is_told_once) {
  ranks_on_hold c(plans_that_save());
  c.hold(1, plan::kind::snapshot);
  c.order();
  c.world.pass(1h);
  BOOST_TEST(!c.answer.has_value());
  BOOST_REQUIRE(c.told.size() == 1U);
  BOOST_TEST(says(c.told[0], "rank 1: nothing has ended for "), c.told[0]);
  BOOST_TEST(says(c.told[0], "writer lane is in snapshot"), c.told[0]);
  c.let_go();
  BOOST_TEST(c.ended_well(), c.failure());
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_lost_is_named_after_stall_after) {
  for (const auto doing : {activity::waiting, activity::working, activity::asking}) {
    ranks_on_hold c(small_plans(2), [doing] { return pulse{1, 0, doing, {}}; });
    c.order();
    c.world.pass(10s);
    BOOST_TEST(c.answer.has_value() == (doing == activity::waiting));
    if (c.answer) BOOST_TEST(says(c.failure(), "rank 0: nothing has ended for 5"), c.failure());
    if (c.answer) BOOST_TEST(says(c.failure(), "and waits for rank 1"), c.failure());
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_were_stopped_all_together_continue_where_they_were) {
  ranks_on_hold c(small_plans(2), [] { return pulse{1, 0, activity::waiting, {}}; });
  c.order();
  for (int i = 0; i < 5; ++i) {
    c.world.pass(4s);  // the ranks are silent, but for less than the limit
    c.world.stop(1h);
  }
  BOOST_TEST(!c.answer.has_value());
  c.world.pass(10s);
  BOOST_TEST(says(c.failure(), "nothing has ended for 5"), c.failure());
}

BOOST_AUTO_TEST_CASE(one_look_is_under_way_however_many_runs_begin) {
  ranks_on_hold c(small_plans(1, 1));
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    c.order();
    BOOST_REQUIRE(c.ended_well());
  }
  BOOST_TEST(c.world.timers() == 1U);
  c.world.pass(10s);
  BOOST_TEST(c.world.timers() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
