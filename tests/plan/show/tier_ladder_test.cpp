#include "plan/show/tier_ladder.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "core/mesh.hpp"

BOOST_AUTO_TEST_SUITE(tier_ladder)

using namespace troupe::plan;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Returns a ladder in which one rung is refused and the other exceeds its limits.
troupe::plan::tier_ladder too_large() {
  troupe::plan::tier_ladder out;
  rung refused, least;
  refused.name = "optimizer on nvme";
  refused.refusal = "the optimizer needs whole parameters";
  least.name = "optimizer on cpu";
  least.found.memory.moments = 3000;
  least.found.memory.activations = 4000;
  least.found.missing = 2048;
  out.rungs = {refused, least};
  out.smallest = 1;
  out.largest_unit = "unit 1";
  out.largest_unit_bytes = uint64_t{195} * 1024;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(if_nothing_fits_the_largest_unit_and_the_smallest_budget_are_named) {
  fit_request request;
  request.options.mesh = troupe::core::data_mesh(2);
  request.limits.states = 1000;
  const auto text = as_text(too_large(), request);
  BOOST_TEST(has(text, "impossible: the optimizer needs whole parameters"), text);
  BOOST_TEST(has(text, "2.00 KiB missing"), text);
  BOOST_TEST(has(text, "the largest unit is unit 1 with 195 KiB of parameters"), text);
  BOOST_TEST(has(text, "the smallest budget that works is 6000 bytes (2.93 KiB for each of 2 ranks), with optimizer"),
             text);
}

BOOST_AUTO_TEST_CASE(a_limit_of_all_memory_is_answered_with_activations_included) {
  fit_request request;
  request.limits.total = 1;
  const auto text = as_text(too_large(), request);
  BOOST_TEST(has(text, "the least that works is 6.84 KiB a rank, activations included, with optimizer on cpu"), text);
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
