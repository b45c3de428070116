// What the plan chooses where nothing is swapped.
#include "actors/open_sizes.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

namespace {

/// One unit of more elements than the least bucket has.
std::shared_ptr<const core::model_table> one_unit() {
  core::model_table table;
  table.parameters.push_back({.name = "matrix", .shape = {2048, 1024}});
  table.units.push_back({"block", {0}, {{"block", {0}, 0, 0}}});
  return std::make_shared<const core::model_table>(std::move(table));
}

uint64_t bucket_of(uint32_t stage, bool overlap, bool given) {
  config::job_config c;
  c.zero_optimization.reduce_bucket_size_given = given;
  plan::plan_options o;
  o.stage = stage;
  o.overlap = overlap;
  o.reduce_bucket = 123'456'789;
  const auto sized = actors::with_open_sizes(c, one_unit(), o, {});
  BOOST_REQUIRE(sized.has_value());
  return sized->reduce_bucket;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(open_sizes)

BOOST_AUTO_TEST_CASE(a_bucket_that_is_reduced_beside_backward_is_as_large_as_the_largest_unit) {
  for (const uint32_t stage : {2U, 3U}) BOOST_TEST(bucket_of(stage, true, false) == 2'097'152U);
}

BOOST_AUTO_TEST_CASE(a_bucket_that_is_given_or_stays_or_is_waited_for_is_left_as_it_is) {
  for (const uint32_t stage : {2U, 3U}) BOOST_TEST(bucket_of(stage, true, true) == 123'456'789U);
  for (const uint32_t stage : {0U, 1U}) BOOST_TEST(bucket_of(stage, true, false) == 123'456'789U);
  BOOST_TEST(bucket_of(2, false, false) == 123'456'789U);
}

BOOST_AUTO_TEST_SUITE_END()
