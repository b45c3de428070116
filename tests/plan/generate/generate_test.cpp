#include "plan/generate/generate.hpp"

#include <algorithm>
#include <map>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(generate)

using namespace troupe::plan;

namespace {

std::map<kind, uint32_t> count(const rank_plan& p) {
  std::map<kind, uint32_t> out;
  for (const auto& x : p.instructions) ++out[x.kind];
  return out;
}

std::map<kind, uint32_t> count(const shared_table& table, const plan_options& o) {
  return count(*plans_of(table, o)[0]);
}

const shared_table three_units = chain_table({4096, 4096, 4096});

}  // namespace

BOOST_AUTO_TEST_CASE(stage_3_gathers_before_each_use_and_releases_after_it) {
  auto o = small_options(2, 3, 2);
  o.gathering.prefetch_bucket = 0;
  auto c = count(three_units, o);
  BOOST_TEST(c[kind::gather] == 2 * 2 * 3U);
  BOOST_TEST(c[kind::release] == 2 * 2 * 3U);
  for (uint32_t stage = 0; stage < 3; ++stage)
    BOOST_TEST(count(three_units, small_options(2, stage))[kind::gather] == 0U);
}

BOOST_AUTO_TEST_CASE(gradients_are_reduced_once_a_step_or_after_each_micro_batch) {
  for (const bool micro_first : {true, false})
    for (uint32_t stage = 0; stage <= 3; ++stage) {
      BOOST_TEST_INFO_SCOPE("micro first " << micro_first);
      BOOST_TEST_INFO_SCOPE("stage " << stage);
      auto o = small_options(2, stage, 3);
      o.gradients.reduce_bucket = 1;
      o.gradients.sum_micro_first = micro_first;
      auto c = count(three_units, o);
      BOOST_TEST(c[kind::reduce] == (micro_first ? 3U : 9U));
      BOOST_TEST(c[kind::norm] == 3U);
      BOOST_TEST(c[kind::vote] == 1U);
    }
}

BOOST_AUTO_TEST_CASE(recompute_comes_before_each_backward_but_the_first_units) {
  auto o = small_options(2, 1, 2);
  o.recompute = true;
  BOOST_TEST(count(three_units, o)[kind::recompute] == 2 * 2U);
}

BOOST_AUTO_TEST_CASE(a_forward_only_plan_has_no_backward_and_generation_no_vote) {
  auto o = small_options(2, 3, 2);
  o.mode = mode::evaluate;
  auto evaluate = count(three_units, o);
  BOOST_TEST(evaluate[kind::forward] == 6U);
  BOOST_TEST(evaluate[kind::vote] == 1U);
  for (const kind k : {kind::backward, kind::reduce, kind::norm, kind::update, kind::publish})
    BOOST_TEST(evaluate[k] == 0U);
  o.mode = mode::generate;
  BOOST_TEST(count(three_units, o)[kind::vote] == 0U);
}

BOOST_AUTO_TEST_CASE(small_buckets_and_sub_groups_give_at_least_four_of_each) {
  const auto p = plans_of(gpt_table(2, 64, 256, true), small_options(2, 3))[0];
  BOOST_TEST(p->layout->buckets.size() >= 4U);
  BOOST_TEST(p->sub_groups.size() >= 4U);
  BOOST_TEST(p->peak_live_elements < p->table().numel(), "live parameters stay below the whole model");
}

BOOST_AUTO_TEST_CASE(instructions_are_named_for_people) {
  const auto p = plans_of(gpt_table(1, 64, 256, false), small_options(2, 3, 2))[0];
  std::vector<std::string> names;
  for (const auto& x : p->instructions) names.push_back(p->describe(x.id));
  for (const char* wanted :
       {"load, micro 1", "gather unit 1, micro 0, backward", "release unit 2, micro 1, backward",
        "forward unit 1 segment 1, micro 0", "backward unit 0, micro 1", "reduce bucket 0, micro 0",
        "norm bucket 0, micro 1", "vote, micro 1", "update sub-group 0, micro 1"})
    BOOST_TEST((std::find(names.begin(), names.end(), wanted) != names.end()), wanted);
}

BOOST_AUTO_TEST_CASE(more_ranks_than_the_model_can_be_cut_into_are_refused) {
  auto o = small_options(3, 1);
  const auto two_blocks = chain_table({1024, 1000});
  const auto refused = troupe::plan::make_layout(two_blocks, o);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == troupe::core::error_kind::bad_input));
  BOOST_TEST(refused.error().text.find("3 ranks") != std::string::npos);
  BOOST_TEST(refused.error().text.find("2 parts") != std::string::npos);
  o.mesh = troupe::core::data_mesh(2);
  BOOST_TEST(troupe::plan::make_layout(two_blocks, o).has_value());
}

BOOST_AUTO_TEST_CASE(a_model_without_units_or_with_an_unwritten_parameter_is_refused) {
  BOOST_TEST(!troupe::plan::make_layout(table_writer().done(), small_options(1, 0)).has_value());
  table_writer w;
  w.unit({{w.parameter(2000)}});
  w.parameter(3000);
  const auto refused = troupe::plan::make_layout(w.done(), small_options(1, 0));
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("p1") != std::string::npos, refused.error().text);
}

BOOST_AUTO_TEST_CASE(impossible_degrees_are_refused) {
  auto o = small_options(2, 1);
  o.accumulation = 0;
  BOOST_TEST(!troupe::plan::make_layout(three_units, o).has_value());
  o = small_options(2, 4);
  BOOST_TEST(!troupe::plan::make_layout(three_units, o).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
