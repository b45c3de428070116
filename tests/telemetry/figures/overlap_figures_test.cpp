// Tests how much of gathers, reductions, swaps and updates overlaps with computation.
#include "telemetry/figures/overlap_figures.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(overlap_figures)

using namespace troupe;
using namespace troupe::telemetry;

namespace {

using figures = troupe::telemetry::overlap_figures;

plan::shared_plans overlap_plans() {
  auto o = plan::small_options(2, 3);
  o.tiers.optimizer = o.tiers.parameters = plan::tier::nvme;
  return plan::plans_of(plan::gpt_table(2, 64, 256, false), o);
}

/// Returns spans in which the instructions run one after another in the order of the plan, each for a microsecond.
std::vector<rank_spans> one_after_the_other(const plan::shared_plans& plans) {
  std::vector<rank_spans> out;
  for (const auto& p : plans) {
    auto& rank = out.emplace_back(rank_spans{.plan = p, .spans = {}});
    for (int64_t at = 1; rank.spans.size() < p->instructions.size(); ++at)
      rank.spans.push_back({1000 * at, 1000 * at + 1000});
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_nothing_computes_beside_is_not_hidden) {
  const auto x = overlap_of(one_after_the_other(overlap_plans()));
  for (const auto* part : {&x.gathers, &x.reductions, &x.swaps, &x.updates}) {
    BOOST_TEST(part->busy_s > 0);
    BOOST_TEST(part->hidden_s == 0);
    BOOST_TEST(part->share() == 0);
  }
  BOOST_TEST(figures{}.gathers.share() == 1);
}

BOOST_AUTO_TEST_CASE(the_part_of_a_gather_that_lies_beside_a_forward_is_hidden) {
  auto ranks = one_after_the_other(overlap_plans());
  for (auto& rank : ranks)
    for (const auto& x : rank.plan->instructions)
      rank.spans[x.id] = x.kind == plan::kind::gather    ? interval{1000, 3000}
                         : x.kind == plan::kind::forward ? interval{2500, 9000}
                                                         : interval{1, 1};
  const auto x = overlap_of(ranks);
  BOOST_TEST(x.gathers.busy_s == 2e-6, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(x.gathers.share() == 0.25, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(work_that_did_not_act_counts_nowhere) {
  auto ranks = one_after_the_other(overlap_plans());
  for (auto& rank : ranks) rank.skipped = true;
  BOOST_TEST(overlap_of(ranks).updates.busy_s == 0);
}

BOOST_AUTO_TEST_CASE(a_predicted_step_has_the_figures_of_its_spans) {
  const auto plans = overlap_plans();
  const auto predicted = overlap_of(plan::predict(plans, plan::cost_model{})), played_spans = overlap_of(played(plans));
  BOOST_TEST(predicted.gathers.busy_s == played_spans.gathers.busy_s, boost::test_tools::tolerance(0.01));
  BOOST_TEST(predicted.reductions.hidden_s == played_spans.reductions.hidden_s, boost::test_tools::tolerance(0.01));
  BOOST_TEST(predicted.updates.busy_s > 0);
  BOOST_TEST(predicted.swaps.busy_s > 0);
}

BOOST_AUTO_TEST_CASE(the_line_names_only_what_a_step_has) {
  figures x;
  BOOST_TEST(overlap_line(x).empty());
  x.gathers = {0.010, 0.0083};
  x.updates = {0.002, 0};
  BOOST_TEST(overlap_line(x) == "hidden behind compute: gathers 83% of 10.0 ms, updates 0% of 2.0 ms");
  const auto json = nlohmann::json::parse(overlap_json(x));
  BOOST_TEST(json.at("gathers").at("hidden_s").get<double>() == 0.0083);
  BOOST_TEST(json.at("swaps").at("busy_s").get<double>() == 0);
  figures mean;
  take_mean(mean, x, 1);
  take_mean(mean, figures{}, 2);
  BOOST_TEST(mean.gathers.busy_s == 0.005, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_SUITE_END()
