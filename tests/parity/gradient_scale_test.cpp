// Checks that gradients are means over the global batch, however it is split into ranks, micro-batches and rows. Uses
// fp64, so that a wrong factor exceeds the rounding errors.
#include <fmt/format.h>

#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(gradient_scale)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t global_rows = 12;
constexpr double tolerance = 1e-12;

const std::string two_blocks =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0.1, "
    "attn_pdrop: 0.1, resid_pdrop: 0.1}\n";

struct observed {
  double loss = 0, norm = 0, later_loss = 0;
  std::vector<std::vector<double>> gradient;  // the gradient of each parameter, by parameter index
};

settings cut(uint64_t ranks, uint64_t micros) {
  return {"data_types.param_dtype=fp64", fmt::format("parallel.data={}", ranks),
          fmt::format("gradient_accumulation_steps={}", micros),
          fmt::format("train_micro_batch_size_per_gpu={}", global_rows / ranks / micros)};
}

observed observe(const small_job& job, const settings& set) {
  auto s = job.open(set);
  const auto first = step_of(*s);
  observed out{first.loss, first.grad_norm, 0, {}};
  for (uint32_t q = 0; q < s->table().parameters.size(); ++q) out.gradient.push_back(gradient_of(*s, q));
  step_of(*s);
  out.later_loss = step_of(*s).loss;
  return out;
}

void check_equal(const observed& got, const observed& wanted) {
  BOOST_TEST(got.loss == wanted.loss, boost::test_tools::tolerance(tolerance));
  BOOST_TEST(got.norm == wanted.norm, boost::test_tools::tolerance(tolerance));
  BOOST_TEST(got.later_loss == wanted.later_loss, boost::test_tools::tolerance(tolerance));
  for (size_t q = 0; q < wanted.gradient.size(); ++q)
    BOOST_TEST(relative_difference(got.gradient[q], wanted.gradient[q]) <= tolerance, "parameter " << q);
}

void check_all(const small_job& job, const std::vector<settings>& all, const settings& common) {
  const auto wanted = observe(job, cut(1, 1) + common);
  BOOST_TEST(wanted.norm > 0);
  for (const auto& set : all) {
    std::string text;
    for (const auto& x : set) text += x + " ";
    BOOST_TEST_CONTEXT(text) { check_equal(observe(job, set + common), wanted); }
  }
}

settings stage(int n, const std::string& order = "auto") {
  return {fmt::format("zero_optimization.stage={}", n), "gradient_order=" + order};
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_cut_of_a_batch_gives_the_same_loss_and_gradient) {
  check_all(small_job(two_blocks),
            {cut(1, 3) + stage(0), cut(1, 12) + stage(0, "per_micro_batch"), cut(2, 1) + stage(3), cut(2, 3) + stage(2),
             cut(2, 3) + stage(1, "per_micro_batch"), cut(3, 1) + stage(0), cut(3, 2) + stage(3, "per_step"),
             cut(3, 4) + stage(3), cut(4, 3) + stage(1)},
            {});
}

BOOST_AUTO_TEST_CASE(clipping_scales_all_cuts_alike) {
  check_all(small_job(two_blocks), {cut(2, 3) + stage(3), cut(3, 2) + stage(1)}, {"gradient_clipping=0.05"});
  check_all(small_job(two_blocks), {cut(2, 3) + stage(2), cut(3, 1) + stage(0)}, {"gradient_clipping=0"});
}

BOOST_AUTO_TEST_CASE(dividing_before_the_sum_leaves_the_mean) {
  const settings prescale = {"prescale_gradients=true"};
  const settings predivide = {"gradient_predivide_factor=3.0"};
  const settings all_reduce = {"zero_optimization.reduce_scatter=false"};
  check_all(small_job(two_blocks),
            {cut(3, 1) + stage(0) + prescale, cut(3, 2) + stage(1) + prescale,
             cut(3, 2) + stage(3) + prescale + all_reduce, cut(2, 3) + stage(0) + predivide,
             cut(3, 2) + stage(2) + predivide + all_reduce, cut(3, 4) + stage(1, "per_micro_batch") + predivide},
            {});
}

BOOST_AUTO_TEST_SUITE_END()
