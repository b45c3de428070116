// Checks that the parameters gathered at the same time never exceed the model's parameters, with or without tied ones.
#include "plan/choose/live_parameters.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(live_parameters)

using namespace troupe::plan;

namespace {

shared_plans plans(bool tied, const plan_options& o) { return plans_of(gpt_table(2, 64, 512, tied), o); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_shared_parameter_counts_once) {
  auto o = small_options(2, 3);
  o.gathering.prefetch_bucket = o.gathering.max_live = o.gathering.max_reuse_distance =
      1'000'000'000;  // no unit is released
  const auto p = plans(true, o).front();
  BOOST_TEST(p->peak_live_elements > p->table().numel());  // two slots hold the tied parameter
  BOOST_TEST(peak_live_parameters(*p) == p->table().numel());
}

BOOST_AUTO_TEST_CASE(without_shared_parameters_it_equals_the_plans_count) {
  for (const uint64_t prefetch : {uint64_t{0}, uint64_t{20000}}) {
    BOOST_TEST_INFO_SCOPE("prefetch " << prefetch);
    auto o = small_options(2, 3);
    o.gathering.prefetch_bucket = prefetch;
    const auto p = plans(false, o).front();
    BOOST_TEST(peak_live_parameters(*p) == p->peak_live_elements);
    BOOST_TEST(peak_live_parameters(*p) < p->table().numel());
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_gathered_below_stage_three) {
  BOOST_TEST(peak_live_parameters(*plans(true, small_options(2, 2)).front()) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
