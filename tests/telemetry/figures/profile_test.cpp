// Tests the costs of units that are computed from the spans of a run, however the model is cut.
#include "telemetry/figures/profile.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(profile)

using namespace troupe;
using namespace troupe::telemetry;

namespace {

plan::model_profile profiled(const std::vector<rank_spans>& step) {
  telemetry::instruction_times times;
  times.add(step);
  return profile_of(times);
}

const auto near = boost::test_tools::tolerance(1e-3);

void check_times(const plan::model_profile& p, const std::vector<plan::modelled_unit>& units) {
  BOOST_TEST_REQUIRE(p.units.size() == units.size());
  for (size_t u = 0; u < units.size(); ++u) {
    BOOST_TEST_INFO_SCOPE("u " << u);
    const auto& micro = units[u].micro;
    BOOST_TEST(p.units[u].forward_s == micro.forward_s, near);
    BOOST_TEST(
        p.units[u].backward_input_s + p.units[u].backward_weight_s == micro.backward_input_s + micro.backward_weight_s,
        near);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(modelled_spans_give_the_modelled_times_back_at_every_cut) {
  const auto table = plan::gpt_table(4, 64, 256, false);
  const auto options = plan::small_options(2, 3, 4);
  const auto units = plan::model_units(*table, options, {});
  check_times(profiled(played(plan::plans_of(table, options))), units);
  for (const char* schedule : {"1f1b", "gpipe"}) check_times(profiled(played_pipeline(schedule)), units);
  check_times(profiled(played_pipeline("interleaved", 2, 2)), units);
}

BOOST_AUTO_TEST_CASE(parts_of_a_split_backward_have_times_of_their_own) {
  const auto table = plan::gpt_table(4, 64, 256, false);
  const auto units = plan::model_units(*table, plan::small_options(2, 3, 4), {});
  const auto p = profiled(played_pipeline("zb_h1"));
  for (size_t u = 3; u < units.size(); ++u) {  // units of stage 0 are skipped, because it may run both parts at once
    BOOST_TEST_INFO_SCOPE("u " << u);
    BOOST_TEST(p.units[u].backward_input_s > 0);
    BOOST_TEST(p.units[u].backward_weight_s >= 0);
  }
}

BOOST_AUTO_TEST_CASE(updates_and_transfers_are_rates) {
  const auto step = played_pipeline();
  const auto p = profiled(step);
  BOOST_TEST(p.update_s_per_element > 0);
  BOOST_TEST(p.transfer_s_per_byte > 0);
  BOOST_TEST(p.steps == 1U);
  BOOST_TEST(p.dtype == "fp32");
  BOOST_TEST(profiled(played_gpt(2)).transfer_s_per_byte == 0);
  BOOST_TEST(plan::is_of(p, step[0].plan->table(), core::dtype::f32));
}

BOOST_AUTO_TEST_CASE(the_rate_of_updates_counts_preparations_and_whole_matrices) {
  const auto table = plan::gpt_table(2, 64, 256, false);
  for (const auto need : {plan::update_need::parameter_norms, plan::update_need::whole_matrix}) {
    auto o = plan::small_options(1, 0);
    o.updates.rules.assign(table->parameters.size(), plan::parameter_update{.moments = 1, .need = need});
    double modelled_s = 0;
    for (const auto& u : plan::model_units(*table, o, {})) modelled_s += u.update_s;
    const auto p = profiled(played(plan::plans_of(table, o)));
    BOOST_TEST(p.update_s_per_element * double(table->numel()) == modelled_s, boost::test_tools::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(of_each_instruction_the_least_time_over_the_steps_counts) {
  const auto quiet = played_pipeline("zb_h1");
  // Returns steps in which half of every rank's instructions take a thousand times as long; `turn` selects which half.
  const auto disturbed = [&](uint32_t turn) {
    auto step = quiet;
    for (auto& r : step)
      for (const auto& lane : r.plan->lanes) {
        int64_t now_ns = 1;
        for (const uint32_t id : lane) {
          const int64_t took_ns = r.spans[id].length_ns();
          r.spans[id] = {now_ns, now_ns + (id % 2 == turn ? 1000 : 1) * took_ns};
          now_ns = r.spans[id].end_ns;
        }
      }
    return step;
  };
  telemetry::instruction_times times;
  for (const uint32_t turn : {0U, 1U, 0U, 1U, 0U}) times.add(disturbed(turn));
  const auto wanted = profiled(quiet), got = profile_of(times);
  BOOST_TEST(got.steps == 3U);
  BOOST_TEST(got.update_s_per_element == wanted.update_s_per_element, near);
  for (size_t u = 0; u < wanted.units.size(); ++u) {
    BOOST_TEST_INFO_SCOPE("u " << u);
    BOOST_TEST(got.units[u].forward_s == wanted.units[u].forward_s, near);
    BOOST_TEST(got.units[u].backward_input_s == wanted.units[u].backward_input_s, near);
    BOOST_TEST(got.units[u].backward_weight_s == wanted.units[u].backward_weight_s, near);
  }
}

BOOST_AUTO_TEST_CASE(a_run_without_steps_has_no_units) { BOOST_TEST(profiled({}).units.empty()); }

BOOST_AUTO_TEST_SUITE_END()
