// Tests the sizes that the plan chooses if no states are swapped.
#include "job/open_sizes.hpp"

#include <boost/test/unit_test.hpp>

#include "plan/layout/buckets.hpp"

BOOST_AUTO_TEST_SUITE(open_sizes)

using namespace troupe;

namespace {

/// Returns a model of one unit that has more elements than the smallest bucket.
std::shared_ptr<const core::model_table> one_unit() {
  core::model_table table;
  table.parameters.push_back({.name = "matrix", .shape = {2048, 1024}});
  table.units.push_back({"block", {0}, {{"block", {0}, 0, 0}}});
  return std::make_shared<const core::model_table>(std::move(table));
}

plan::plan_options sized(uint32_t stage, bool overlap, config::zero_section z = {}, uint32_t ranks = 2) {
  config::job_config c;
  c.zero_optimization = z;
  plan::plan_options o;
  o.mesh = core::data_mesh(ranks);
  o.stage = stage;
  o.overlap = overlap;
  o.gradients.reduce_bucket = o.updates.allgather_bucket = o.updates.sub_group = 123'456'789;
  const auto sized = job::with_open_sizes(c, one_unit(), o, {});
  BOOST_REQUIRE(sized.has_value());
  return *sized;
}
uint64_t bucket_of(uint32_t stage, bool overlap, bool given, uint32_t ranks = 2) {
  config::zero_section z;
  z.reduce_bucket_size_given = given;
  return sized(stage, overlap, z, ranks).gradients.reduce_bucket;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_bucket_that_is_reduced_beside_backward_is_as_large_as_the_largest_segment) {
  for (const uint32_t stage : {0U, 1U, 2U, 3U}) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    BOOST_TEST(bucket_of(stage, true, false) == 2'097'152U);
    BOOST_TEST(sized(stage, true).gradients.buckets_follow_units == (stage < 3));
  }
}

BOOST_AUTO_TEST_CASE(a_bucket_that_is_given_or_not_overlapped_or_of_a_single_rank_is_left_as_it_is) {
  for (const uint32_t stage : {0U, 1U, 2U, 3U}) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    BOOST_TEST(bucket_of(stage, true, true) == 123'456'789U);
    BOOST_TEST(bucket_of(stage, false, false) == 123'456'789U);
  }
  for (const uint32_t stage : {0U, 1U})
    BOOST_TEST_CONTEXT("stage " << stage) BOOST_TEST(bucket_of(stage, true, false, 1) == 123'456'789U);
}

BOOST_AUTO_TEST_CASE(parameters_are_published_in_parts_beside_updates_by_default) {
  for (const uint32_t stage : {1U, 2U}) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto o = sized(stage, true);
    // An eighth of the unit would be less than the smallest bucket.
    BOOST_TEST(o.updates.allgather_bucket == plan::unit_bucket_min);
    BOOST_TEST(o.updates.sub_group == plan::unit_bucket_min / 2);
    BOOST_TEST(sized(stage, false).updates.allgather_bucket == 123'456'789U);
    config::zero_section z;
    z.allgather_bucket_size_given = true;
    BOOST_TEST(sized(stage, true, z).updates.sub_group == 123'456'789U);
    z = {};
    z.sub_group_size_given = true;
    BOOST_TEST(sized(stage, true, z).updates.allgather_bucket == 123'456'789U);
  }
  for (const uint32_t stage : {0U, 3U})
    BOOST_TEST_CONTEXT("stage " << stage) BOOST_TEST(sized(stage, true).updates.sub_group == 123'456'789U);
}

BOOST_AUTO_TEST_SUITE_END()
