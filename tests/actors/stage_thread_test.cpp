// Tests the stages of one rank: each is an actor of its own, all run on one thread, and they follow the plan's order.
#include "actors/stage_thread.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "plan/stage_place.hpp"
#include "tests/actors/ranks.hpp"
#include "tests/plan/pipeline_samples.hpp"

BOOST_AUTO_TEST_SUITE(stage_thread)

using namespace troupe;
using namespace troupe::actors;

namespace {

plan::shared_plans chunked(const std::string& schedule) {
  return plan::plans_of(plan::chain_table(std::vector<uint64_t>(6, 3000)), plan::options_of_pipeline(schedule, 2, 2));
}

std::vector<uint32_t> compute_lane(const plan::rank_plan& p) {
  return p.lanes[static_cast<size_t>(plan::lane::compute)];
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_stage_runs_the_instructions_of_its_units_and_no_others) {
  for (const auto& p : chunked("zb_v")) {
    const actors::program made(p);
    const auto stages = plan::stages_of(*p->layout, p->options().mesh.pipeline_at(p->rank));
    BOOST_REQUIRE(stages.size() == 2U);
    BOOST_TEST(made.orders.size() == plan::num_lanes + 1);
    for (uint32_t chunk = 0; chunk < 2; ++chunk) {
      BOOST_TEST_INFO_SCOPE("chunk " << chunk);
      const auto& order = made.orders[seat_of(plan::lane::compute, chunk)];
      BOOST_TEST(!order.empty());
      for (const uint32_t id : order) {
        const uint32_t stage = plan::stage_served(*p->layout, p->instructions[id]);
        BOOST_TEST((stage == stages[chunk] || (stage == plan::none && chunk == 0)), p->describe(id));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_arrives_is_told_to_the_stage_that_takes_it_alone) {
  size_t received = 0;
  for (const auto& p : chunked("interleaved")) {
    const actors::program made(p);
    for (const auto& x : p->instructions) {
      if (x.kind != plan::kind::receive) continue;
      const auto stages = plan::stages_of(*p->layout, p->options().mesh.pipeline_at(p->rank));
      const auto chunk = std::ranges::find(stages, plan::stage_served(*p->layout, x)) - stages.begin();
      BOOST_TEST((made.told[x.id] == std::vector{seat_of(plan::lane::compute, static_cast<uint32_t>(chunk))}),
                 p->describe(x.id));
      ++received;
    }
  }
  BOOST_TEST(received > 0U);
}

BOOST_AUTO_TEST_CASE(stages_that_hear_only_what_they_are_told_keep_the_order_of_the_plan) {
  for (const auto* schedule : {"zb_v", "interleaved"})
    for (const auto& p : chunked(schedule)) {
      const auto made = std::make_shared<const actors::program>(p);
      std::vector<sequencer> stages(2);
      for (uint32_t chunk = 0; chunk < 2; ++chunk) {
        stages[chunk].begin(made, plan::lane::compute, chunk);
        stages[chunk].extend(stages[chunk].size());
      }
      // All instructions of other lanes are marked as ended, so that the stages wait only for each other.
      for (const auto& x : p->instructions)
        for (const uint32_t seat : made->told[x.id])
          for (uint32_t chunk = 0; chunk < 2 && x.lane != plan::lane::compute; ++chunk)
            if (seat == seat_of(plan::lane::compute, chunk)) stages[chunk].ended(x.id);
      for (const uint32_t id : compute_lane(*p)) {
        std::vector<uint32_t> started;
        for (auto& stage : stages)
          if (const auto next = stage.next()) started.push_back(*next);
        BOOST_REQUIRE_MESSAGE(started == std::vector{id}, p->describe(id));
        stages[made->seat[id] == seat_of(plan::lane::compute) ? 0 : 1].ended(id);
        for (const uint32_t seat : made->told[id])
          for (uint32_t chunk = 0; chunk < 2; ++chunk)
            if (seat == seat_of(plan::lane::compute, chunk)) stages[chunk].ended(id);
      }
      for (const auto& stage : stages) BOOST_TEST(stage.all_ended());
    }
}

BOOST_AUTO_TEST_CASE(the_stages_of_a_rank_compute_on_one_thread_that_is_no_other_ranks) {
  std::mutex mutex;
  std::map<uint32_t, std::set<std::thread::id>> threads;  // [rank]: threads on which its stages ran
  std::map<uint32_t, std::vector<uint32_t>> order;        // [rank]: instructions in the order in which they ran
  const auto plans = chunked("zb_v");
  threaded_company c(plans, [&](const step_context& at, const plan::instruction& x) -> core::result<progress> {
    const std::lock_guard lock(mutex);
    if (x.lane != plan::lane::compute) return progress::done;
    threads[at.plan().rank].insert(std::this_thread::get_id());
    order[at.plan().rank].push_back(x.id);
    return progress::done;
  });
  std::set<std::thread::id> all;
  for (int run = 0; run < 3; ++run) {
    BOOST_TEST_INFO_SCOPE("run " << run);
    order.clear();
    const auto out = c.run();
    BOOST_REQUIRE_MESSAGE(!out.failure, (out.failure ? out.failure->text : ""));
    for (const auto& p : plans) BOOST_TEST((order[p->rank] == compute_lane(*p)));
  }
  for (const auto& [rank, own] : threads) {
    BOOST_TEST(own.size() == 1U);
    all.insert(own.begin(), own.end());
  }
  BOOST_TEST(all.size() == plans.size());
}

BOOST_AUTO_TEST_CASE(a_stage_that_dies_is_named_with_its_chunk) {
  threaded_company c(chunked("zb_v"));
  BOOST_TEST(!c.run().failure);
  caf::anon_send_exit(c.actors().ranks[2]->lanes[seat_of(plan::lane::compute, 1)], caf::exit_reason::kill);
  const auto out = c.run();
  BOOST_REQUIRE(out.failure);
  BOOST_TEST((out.failure->kind == core::error_kind::peer_lost));
  BOOST_TEST(says(out.failure->text, "rank 2 (stages 1 and 2): compute lane, chunk 1 ended"), out.failure->text);
}

BOOST_AUTO_TEST_SUITE_END()
