// Tests the peak of memory where no published row measures it: states that ZeRO 2 and 3 divide, layers that they hold
// whole, and stages of interleaved pipelines.
#include "hardware/memory_cost.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(memory_cost)

using namespace troupe;
using namespace troupe::hardware;
using namespace troupe::tests;

namespace {

constants some_constants() {
  constants c;
  c.optimizer_bytes_per_parameter = 12;
  c.work_bytes_per_hidden = 40;
  c.saved_bytes_per_hidden = 17;
  c.saved_bytes_per_ffn = 6;
  c.logit_bytes = 6;
  c.context_bytes = 1e9;
  return c;
}

/// A model of 10 layers of 12 h^2 parameters, and a vocabulary of 100 h, with h = 1000.
workload some_job() {
  workload w;
  w.hidden = 1000, w.ffn = 4000, w.heads = w.kv_heads = 10, w.layers = 10, w.sequence = 100, w.vocabulary = 100;
  w.fused_attention = true;
  w.data = 4;
  return w;
}

constexpr double layer = 12e6, table = 1e5, all = 10 * layer + table;

bool is_near(double got, double wanted) { return std::abs(got / wanted - 1) < 1e-12; }

}  // namespace

BOOST_AUTO_TEST_CASE(each_stage_of_zero_divides_more_of_the_states) {
  const auto c = some_constants();
  auto w = some_job();
  w.main_grad_bytes = 4;
  const double wanted[] = {all * (2 + 4 + 12), all * (2 + 4 + 3), all * (2 + 1 + 3), all * (0.5 + 1 + 3)};
  for (int stage = 0; stage < 4; ++stage) {
    w.zero = stage;
    BOOST_TEST(is_near(cost_of_memory(w, c).states_bytes, wanted[stage]), stage);
  }
}

BOOST_AUTO_TEST_CASE(zero_2_and_3_hold_the_largest_layer_whole_if_there_are_several_data_ranks) {
  const auto c = some_constants();
  auto w = some_job();
  w.reduce_bytes = 4;
  const double wanted[] = {0, 0, layer * 4, layer * (2 * 2 + 4)};
  for (int stage = 0; stage < 4; ++stage) {
    w.zero = stage;
    BOOST_TEST(std::abs(cost_of_memory(w, c).work_bytes - wanted[stage]) < 1e-3, stage);
  }
  w.data = 1;
  BOOST_TEST(cost_of_memory(w, c).work_bytes == 0);
}

BOOST_AUTO_TEST_CASE(a_recomputed_layer_needs_a_work_area_and_its_constant) {
  auto c = some_constants();
  auto w = some_job();
  w.recompute = true;
  BOOST_TEST(is_near(cost_of_memory(w, c).work_bytes, 40.0 * 100 * 1000));
  BOOST_TEST(is_near(cost_of_memory(w, c).activations_bytes, 10 * 2.0 * 100 * 1000));
  check_ok(needs_of_memory(w, c));
  c.work_bytes_per_hidden = 0;
  check_failed(needs_of_memory(w, c), "the constant work_bytes_per_hidden is absent");
  w.recompute = false;
  check_ok(needs_of_memory(w, c));
}

BOOST_AUTO_TEST_CASE(interleaved_stages_hold_more_micro_batches) {
  auto c = some_constants();
  c.context_bytes = 0;
  auto w = some_job();
  w.data = 1;
  w.vocabulary = 1;
  w.pipeline = 5;
  w.micro_batches = 100;
  const double of_stage = 2 * 100.0 * (1000 * 17 + 4000 * 6);  // activations of two layers of one micro-batch
  BOOST_TEST(is_near(cost_of_memory(w, c).activations_bytes, 5 * of_stage));
  w.chunks = 2;
  BOOST_TEST(is_near(cost_of_memory(w, c).activations_bytes, 7 * of_stage));
  w.micro_batches = 3;
  BOOST_TEST(is_near(cost_of_memory(w, c).activations_bytes, 3 * of_stage));
}

BOOST_AUTO_TEST_SUITE_END()
