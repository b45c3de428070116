#include "kernels/schedule.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

namespace troupe::kernels {
BOOST_AUTO_TEST_SUITE(schedule)

namespace {
void check_rates(const schedule_options& o, int64_t first, const std::vector<double>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t it = first + static_cast<int64_t>(i);
    BOOST_TEST_CONTEXT("it " << it) BOOST_CHECK_SMALL(learning_rate(o, it) - wanted[i], 1e-6);
  }
}
}  // namespace

BOOST_AUTO_TEST_CASE(warmup_is_logarithmic_and_then_constant) {
  const schedule_options o{.type = "WarmupLR", .warmup_max_lr = 0.1, .warmup_num_steps = 10};
  check_rates(o, -1, {0, 0, .030103, .047712, .060206, .069897, .077815, .084510, .090309, .095424, .1, .1, .1});
}

BOOST_AUTO_TEST_CASE(warmup_may_be_linear_from_a_least_rate) {
  const schedule_options o{
      .type = "WarmupLR", .warmup_min_lr = 0.02, .warmup_max_lr = 0.1, .warmup_num_steps = 4, .warmup_type = "linear"};
  check_rates(o, -1, {.02, .02, .04, .06, .08, .1, .1});
}

BOOST_AUTO_TEST_CASE(warmup_ends_at_the_optimizers_rate_where_none_is_given) {
  BOOST_CHECK_EQUAL(learning_rate({.type = "WarmupLR", .warmup_num_steps = 2, .base_lr = 0.25}, 2), 0.25);
  BOOST_CHECK_EQUAL(
      learning_rate({.type = "WarmupDecayLR", .warmup_num_steps = 2, .total_num_steps = 9, .base_lr = 0.25}, 2), 0.001);
}

BOOST_AUTO_TEST_CASE(decay_is_linear_to_zero_and_stays_there) {
  const schedule_options o{
      .type = "WarmupDecayLR", .warmup_max_lr = 0.1, .warmup_num_steps = 10, .total_num_steps = 20};
  check_rates(o, 9, {.1, .1, .09, .08, .07, .06, .05, .04, .03, .02, .01, 0, 0, 0});
}

BOOST_AUTO_TEST_CASE(cosine_falls_to_its_least_ratio) {
  const schedule_options o{.type = "WarmupCosineLR", .warmup_num_steps = 10, .total_num_steps = 20, .base_lr = 1};
  check_rates(o, 10, {.975531, .904518, .793913, .654543, .50005, .345557, .206187, .095582, .024569, .0001, .0001});
  check_rates(o, -1, {0, 0, .30103, .477121});
}

BOOST_AUTO_TEST_CASE(cosine_warms_up_from_its_least_ratio_and_scales_with_the_optimizers_rate) {
  const schedule_options o{.type = "WarmupCosineLR",
                           .warmup_num_steps = 4,
                           .total_num_steps = 20,
                           .warmup_type = "linear",
                           .warmup_min_ratio = 0.2,
                           .base_lr = 0.5};
  check_rates(o, -1, {0, .1, .2, .3, .4});
}

BOOST_AUTO_TEST_CASE(a_warmup_of_one_step_counts_as_two) {
  const schedule_options one{.type = "WarmupLR", .warmup_max_lr = 1, .warmup_num_steps = 1};
  check_rates(one, -1, {0, 0, 1, 1});
}

BOOST_AUTO_TEST_CASE(without_a_schedule_the_rate_is_constant) {
  check_rates({.base_lr = 0.3}, -1, {.3, .3, .3});
  BOOST_CHECK(is_schedule(""));
  BOOST_CHECK(is_schedule("WarmupCosineLR"));
  BOOST_CHECK(!is_schedule("OneCycle"));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels
