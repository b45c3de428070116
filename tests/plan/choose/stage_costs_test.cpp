// Compares the costs of units and stages that are estimated before a plan is generated with the costs of generated
// plans.
#include "plan/choose/stage_costs.hpp"

#include "plan/choose/cost.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(stage_costs)

using namespace troupe::plan;

namespace {

/// Returns the busy seconds of the compute lane in the plan of one rank.
double compute_s(const shared_table& table, const plan_options& o, const cost_model& costs) {
  double out = 0;
  const auto plan = plans_of(table, o).front();
  for (const uint32_t id : plan->lanes[static_cast<size_t>(lane::compute)])
    out += predicted_seconds(*plan, plan->instructions[id], costs);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(units_take_together_what_a_plan_of_one_rank_takes) {
  const auto table = gpt_table(3, 32, 100, false);
  const cost_model costs;
  for (const uint32_t micros : {1U, 4U}) {
    BOOST_TEST_INFO_SCOPE("micros " << micros);
    const auto o = small_options(1, 0, micros);
    double micro_s = 0;
    for (const auto& u : model_units(*table, o, costs))
      micro_s += u.micro.forward_s + u.micro.backward_input_s + u.micro.backward_weight_s;
    BOOST_TEST(micros * micro_s == compute_s(table, o, costs), boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(stages_take_together_what_their_units_take) {
  const auto table = gpt_table(3, 32, 100, false);
  const cost_model costs;
  const auto units = model_units(*table, small_options(1, 0, 2), costs);
  const auto stages = costs_of_stages(*table, units, {0, 2, 5}, costs);
  BOOST_TEST_REQUIRE(stages.stages.size() == 2U);
  BOOST_TEST(stages.stages[0].forward_s == units[0].micro.forward_s + units[1].micro.forward_s);
  BOOST_TEST(stages.stages[1].activation_bytes ==
             units[2].micro.activation_bytes + units[3].micro.activation_bytes + units[4].micro.activation_bytes);
  BOOST_TEST(stages.transfer_s >= costs.latency_s);
}

BOOST_AUTO_TEST_CASE(an_update_is_spread_over_the_micro_batches_and_shared_by_shards) {
  const auto table = chain_table({4096, 8192});
  const cost_model costs;
  const auto alone = model_units(*table, small_options(1, 1), costs),
             four = model_units(*table, small_options(4, 1), costs);
  BOOST_TEST(four[1].update_s == alone[1].update_s / 4, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(four[1].state_bytes < alone[1].state_bytes);
  const auto one = costs_for_cut(alone, 1), two = costs_for_cut(alone, 2);
  BOOST_TEST(one[0].step_s - two[0].step_s == alone[0].update_s / 2, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(updates_take_what_a_plan_takes_for_them_with_preparation_and_whole_matrices) {
  const auto table = chain_table({8192, 8192});
  const cost_model costs;
  for (const auto& [ranks, stage] : {std::pair(1U, 0U), std::pair(2U, 0U), std::pair(2U, 1U)})
    for (const auto need : {update_need::elements, update_need::parameter_norms, update_need::whole_matrix}) {
      auto o = small_options(ranks, stage);
      o.updates.rules.assign(2, parameter_update{.moments = 1, .need = need, .rows = 64, .columns = 128});
      double planned = 0, modelled = 0;
      for (const auto& p : plans_of(table, o))
        for (const auto& x : p->instructions)
          if (x.kind == kind::prepare || x.kind == kind::orthogonalise || x.kind == kind::update)
            planned += predicted_seconds(*p, x, costs);
      for (const auto& u : model_units(*table, o, costs)) modelled += u.update_s;
      BOOST_TEST_CONTEXT(ranks << " ranks at stage " << stage << ", need " << int(need))
      BOOST_TEST(ranks * modelled == planned, boost::test_tools::tolerance(1e-9));
    }
}

BOOST_AUTO_TEST_CASE(recomputation_takes_time_and_keeps_the_input_alone) {
  const auto table = gpt_table(2, 32, 100, false);
  auto o = small_options(1, 0);
  const auto kept = model_units(*table, o, {});
  o.recompute = true;
  const auto again = model_units(*table, o, {});
  BOOST_TEST(again[1].micro.backward_input_s > kept[1].micro.backward_input_s);
  BOOST_TEST(again[1].micro.activation_bytes == table->units[1].input_bytes);
}

BOOST_AUTO_TEST_SUITE_END()
