#include "plan/show/tier_ladder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(tier_ladder)

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

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

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

BOOST_AUTO_TEST_CASE(if_nothing_fits_the_largest_unit_and_the_smallest_budget_are_named) {
  const auto request = request_for(3, 1000);
  const auto ladder = try_tiers(request);
  BOOST_TEST(!ladder.chosen.has_value());
  BOOST_REQUIRE(ladder.smallest.has_value());
  const uint64_t each = ladder.rungs[*ladder.smallest].found.memory.states();
  const auto text = as_text(ladder, request);
  BOOST_TEST(has(text, "the largest unit is unit 1 with 195 KiB of parameters"), text);
  BOOST_TEST(has(text, fmt::format("the smallest budget that works is {} bytes", 2 * each)), text);
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
  const auto text = as_text(ladder, request);
  BOOST_TEST(ladder.rungs[0].refusal.empty());
  BOOST_TEST(!ladder.rungs[3].refusal.empty());
  BOOST_TEST(has(text, "impossible: the optimizer needs whole parameters"), text);
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
  BOOST_TEST(has(as_text(ladder, request), "activations included"));
}

BOOST_AUTO_TEST_CASE(the_section_to_paste_has_the_chosen_settings) {
  plan_options o;
  o.stage = 3;
  o.updates.sub_group = 1024;
  o.gradients.reduce_bucket = 2048;
  o.gathering.prefetch_bucket = 7;
  o.gathering.max_reuse_distance = 8;
  o.gathering.persistence_threshold = 9;
  fitted x;
  x.options = o;
  BOOST_TEST(as_yaml(x, "/x") ==
             "zero_optimization:\n  stage: 3\n  reduce_bucket_size: 2048\n  stage3_prefetch_bucket_size: 7\n"
             "  stage3_max_reuse_distance: 8\n  stage3_param_persistence_threshold: 9\n");
  auto& t = x.options.tiers;
  t.optimizer = t.parameters = tier::nvme;
  t.state_slots = 3;
  t.read_ahead = t.write_behind = true;
  t.parameter_slots = 2;
  t.resident_parameters = 77;
  t.ratio = 0.75;
  t.swap_gradients = true;
  const auto text = as_yaml(x, "/a \"b\"");
  BOOST_TEST(has(text, "  sub_group_size: 1024\n"), text);
  BOOST_TEST(has(text,
                 "  offload_optimizer: {device: nvme, nvme_path: \"/a \\\"b\\\"\", buffer_count: 12, "
                 "pipeline_read: true, pipeline_write: true, ratio: 0.75}\n"),
             text);
  BOOST_TEST(
      has(text, "  offload_param: {device: nvme, nvme_path: \"/a \\\"b\\\"\", buffer_count: 2, max_in_cpu: 77}\n"),
      text);
  BOOST_TEST(has(text, "cluster:\n  swap_gradients: true\n"), text);
}

BOOST_AUTO_TEST_SUITE_END()
