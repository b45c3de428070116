#include "plan/choose/tier_search.hpp"

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(tier_search)

using namespace troupe::plan;

namespace {

fit_request request_for(uint32_t stage, uint64_t states) {
  fit_request r;
  r.table = gpt_table(4, 64, 512, true);
  r.options.mesh = troupe::core::data_mesh(2);
  r.options.stage = stage;
  r.options.gradients.sum_micro_first = stage <= 1;
  r.open = {true, true, true, true, true, true, true, true, true};
  r.limits.states = states;
  return r;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_cheapest_tiers_that_fit_are_taken) {
  const auto plenty = try_tiers(request_for(3, uint64_t{1} << 40));
  BOOST_REQUIRE(plenty.chosen.has_value());
  BOOST_TEST(*plenty.chosen == 0U);
  std::vector<uint64_t> needed;
  for (const auto& x : try_tiers(request_for(3, 1)).rungs) needed.push_back(x.found.memory.states());
  BOOST_REQUIRE(needed.size() == 6U);
  BOOST_TEST(needed[0] == needed[1]);  // the first two combinations of tiers use the same memory
  BOOST_TEST(needed[2] > needed[3]);
  BOOST_TEST(needed[3] > needed[4]);
  BOOST_TEST(needed[4] > needed[5]);
  for (size_t i : {size_t{3}, size_t{4}, size_t{5}}) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto ladder = try_tiers(request_for(3, needed[i]));
    BOOST_REQUIRE(ladder.chosen.has_value());
    BOOST_TEST(*ladder.chosen == i);
    BOOST_TEST(ladder.rungs[i].found.memory.states() == needed[i]);
  }
}

BOOST_AUTO_TEST_CASE(the_smallest_rung_fits_a_budget_of_its_bytes_and_no_smaller_one) {
  const auto ladder = try_tiers(request_for(3, 1000));
  BOOST_TEST(!ladder.chosen.has_value());
  BOOST_TEST(ladder.largest_unit == "unit 1");
  BOOST_TEST(ladder.largest_unit_bytes == uint64_t{4} * 49'984);
  BOOST_REQUIRE(ladder.smallest.has_value());
  const uint64_t each = ladder.rungs[*ladder.smallest].found.memory.states();
  BOOST_TEST(try_tiers(request_for(3, each)).chosen.has_value());
  BOOST_TEST(!try_tiers(request_for(3, each - 1)).chosen.has_value());
}

BOOST_AUTO_TEST_CASE(below_stage_3_the_rungs_continue_at_stage_3) {
  const auto request = request_for(1, 1);
  const auto ladder = try_tiers(request);
  BOOST_REQUIRE(ladder.rungs.size() == 4U + 6);
  BOOST_TEST(ladder.rungs[3].found.options.stage == 1U);
  BOOST_TEST(ladder.rungs[9].name == "stage 3: + parameters on nvme");
  BOOST_TEST(ladder.rungs[9].found.options.stage == 3U);
  BOOST_TEST(*ladder.smallest == 9U);
  BOOST_TEST(try_tiers(request_for(0, 1)).rungs.size() == 1U + 6);
}

BOOST_AUTO_TEST_CASE(an_optimizer_of_whole_matrices_has_no_files) {
  auto request = request_for(3, 1);
  request.options.updates.rules.assign(request.table->parameters.size(), {1, update_need::parameter_norms});
  const auto ladder = try_tiers(request);
  BOOST_TEST(ladder.rungs[0].refusal.empty());
  BOOST_TEST(ladder.rungs[3].refusal == "the optimizer needs whole parameters");
}

BOOST_AUTO_TEST_CASE(every_byte_of_memory_is_in_one_column) {
  auto request = request_for(3, 700'000);
  request.limits.total = 3'000'000;
  for (const auto& x : try_tiers(request).rungs) {
    BOOST_TEST(x.bytes[0] + x.bytes[1] == x.found.memory.total());
    BOOST_TEST(x.bytes[2] == x.found.memory.swapped);
  }
  memory_table m;
  m.parameters = 1;
  m.moments = 10;
  m.gathered = 100;
  m.windows = 1000;
  m.swapped = 10'000;
  tier_options t;
  t.optimizer = tier::cpu;
  BOOST_TEST((bytes_by_tier(m, t) == tier_bytes{101, 1010, 10'000}));
}

BOOST_AUTO_TEST_CASE(activations_leave_only_where_all_memory_is_limited) {
  auto request = request_for(3, 0);
  request.limits.total = 1;
  const auto ladder = try_tiers(request);
  BOOST_REQUIRE(ladder.rungs.size() == 7U);
  BOOST_TEST(ladder.rungs[6].found.memory.activations < ladder.rungs[5].found.memory.activations);
}

BOOST_AUTO_TEST_SUITE_END()
