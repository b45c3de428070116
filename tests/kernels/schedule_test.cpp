#include "kernels/optimizer/schedule.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/places.hpp"

namespace troupe::kernels {
BOOST_AUTO_TEST_SUITE(schedule)

namespace {
using curve = core::schedule_type;

void check_rates(const schedule_options& o, int64_t first, const std::vector<double>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t it = first + static_cast<int64_t>(i);
    BOOST_TEST_CONTEXT("it " << it) BOOST_CHECK_SMALL(learning_rate(o, it) - wanted[i], 1e-6);
  }
}

/// Converts keyword arguments of DeepSpeed's, torch's and transformers' schedules to Troupe's options; an unknown
/// keyword fails the test.
schedule_options options_of(const nlohmann::json& wanted, double base_lr) {
  schedule_options o{.type = core::schedule_type_from(wanted["type"].get<std::string>()).value(), .base_lr = base_lr};
  for (const auto& [key, value] : wanted["parameters"].items()) {
    const std::map<std::string, double*> numbers{{"warmup_min_ratio", &o.warmup_min_ratio},
                                                 {"lr_range_test_min_lr", &o.lr_range_test_min_lr},
                                                 {"lr_range_test_step_rate", &o.lr_range_test_step_rate},
                                                 {"cycle_min_lr", &o.cycle_min_lr},
                                                 {"cycle_max_lr", &o.cycle_max_lr},
                                                 {"decay_lr_rate", &o.decay_lr_rate},
                                                 {"cycle_min_mom", &o.cycle_min_mom},
                                                 {"cycle_max_mom", &o.cycle_max_mom},
                                                 {"decay_mom_rate", &o.decay_mom_rate},
                                                 {"eta_min", &o.eta_min},
                                                 {"start_factor", &o.start_factor},
                                                 {"end_factor", &o.end_factor},
                                                 {"power", &o.power},
                                                 {"min_lr_ratio", &o.min_lr_ratio}};
    const std::map<std::string, uint64_t*> counts{{"warmup_num_steps", &o.warmup_num_steps},
                                                  {"total_num_steps", &o.total_num_steps},
                                                  {"lr_range_test_step_size", &o.lr_range_test_step_size},
                                                  {"cycle_first_step_size", &o.cycle_first_step_size},
                                                  {"cycle_first_stair_count", &o.cycle_first_stair_count},
                                                  {"decay_step_size", &o.decay_step_size},
                                                  {"T_max", &o.t_max},
                                                  {"total_iters", &o.total_iters},
                                                  {"T_0", &o.t_0},
                                                  {"T_mult", &o.t_mult},
                                                  {"num_warmup_steps", &o.num_warmup_steps},
                                                  {"num_training_steps", &o.num_training_steps},
                                                  {"num_cycles", &o.num_cycles},
                                                  {"num_decay_steps", &o.num_decay_steps}};
    if (numbers.contains(key))
      *numbers.at(key) = value;
    else if (counts.contains(key))
      *counts.at(key) = value;
    else if (key == "warmup_max_lr")
      o.warmup_max_lr = value.get<double>();
    else if (key == "cycle_second_step_size")
      o.cycle_second_step_size = value.get<uint64_t>();
    else if (key == "cycle_second_stair_count")
      o.cycle_second_stair_count = value.get<uint64_t>();
    else if (key == "lr_range_test_staircase")
      o.lr_range_test_staircase = value;
    else if (key == "cycle_momentum")
      o.cycle_momentum = value;
    else if (key == "decay_type")
      o.decay_type = core::decay_shape_from(value.get<std::string>()).value();
    else
      BOOST_ERROR("no option for " << key);
  }
  return o;
}
}  // namespace

BOOST_AUTO_TEST_CASE(every_schedule_has_the_values_of_deepspeeds_torchs_and_transformers_own) {
  // The script tests/peer/make_schedule_fixture.py generates the fixture.
  std::ifstream file((std::string(troupe::places::source_dir) + "/tests/kernels/fixtures/schedules.json"));
  BOOST_REQUIRE(file);
  const auto fixture = nlohmann::json::parse(file);
  BOOST_REQUIRE_EQUAL(fixture["cases"].size(), 27);
  for (const auto& [name, wanted] : fixture["cases"].items()) {
    const auto o = options_of(wanted, fixture["base_lr"]);
    const auto rates = wanted["rates"].get<std::vector<double>>();
    for (size_t i = 0; i < rates.size(); ++i) {
      const auto it = static_cast<int64_t>(i) - 1;
      BOOST_TEST_CONTEXT(name << ", it " << it) {
        BOOST_CHECK_SMALL(learning_rate(o, it) - rates[i], 1e-13);
        BOOST_REQUIRE_EQUAL(momentum(o, it).has_value(), !wanted["momenta"].is_null());
        if (!momentum(o, it)) continue;
        BOOST_CHECK_SMALL(*momentum(o, it) - wanted["momenta"][i][0].get<double>(), 1e-13);
        BOOST_CHECK_EQUAL(one_cycle_beta2, wanted["momenta"][i][1].get<double>());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(one_cycle_rises_falls_and_takes_momentum_the_other_way) {
  const schedule_options o{.type = curve::one_cycle, .cycle_min_lr = 0, .cycle_max_lr = 1, .cycle_first_step_size = 4};
  check_rates(o, -1, {0, .25, .5, .75, 1, .75, .5, .25, 0, 0, 0});
  BOOST_CHECK_CLOSE(momentum(o, 3).value(), 0.8, 1e-9);
  BOOST_CHECK_CLOSE(momentum(o, 7).value(), 0.9, 1e-9);
  BOOST_CHECK_CLOSE(momentum(o, 100).value(), 0.9, 1e-9);
  BOOST_CHECK(!momentum({.type = curve::warmup}, 3));
}

BOOST_AUTO_TEST_CASE(a_range_test_climbs_for_ever_and_in_stairs_where_asked) {
  schedule_options o{.type = curve::range_test, .lr_range_test_min_lr = 0.1, .lr_range_test_step_size = 2};
  check_rates(o, -1, {.1, .15, .2, .25, .3});
  o.lr_range_test_staircase = true;
  check_rates(o, -1, {.1, .1, .2, .2, .3});
}

BOOST_AUTO_TEST_CASE(torchs_closed_forms_start_at_their_first_value_and_hold_their_last) {
  check_rates({.type = curve::cosine_annealing, .base_lr = 1, .t_max = 4, .eta_min = 0.2}, -1,
              {1, .2 + .4 * (1 + std::sqrt(.5)), .6, .2 + .4 * (1 - std::sqrt(.5)), .2});
  check_rates({.type = curve::linear, .base_lr = 3, .total_iters = 2}, -1, {1, 2, 3, 3});
  check_rates({.type = curve::polynomial, .base_lr = 1, .total_iters = 4, .power = 2}, -1,
              {1, .5625, .25, .0625, 0, 0});
}

BOOST_AUTO_TEST_CASE(a_rate_rises_stays_and_falls_to_its_least_ratio) {
  const schedule_options o{.type = curve::warmup_stable_decay,
                           .base_lr = 2,
                           .num_warmup_steps = 2,
                           .num_training_steps = 8,
                           .num_decay_steps = 4,
                           .decay_type = core::decay_shape::linear,
                           .min_lr_ratio = 0.2};
  check_rates(o, -1, {.4, 1.2, 2, 2, 2, 1.6, 1.2, .8, .4, .4});
}

BOOST_AUTO_TEST_CASE(restarts_begin_at_the_optimizers_rate_and_periods_may_grow) {
  check_rates({.type = curve::warm_restarts, .base_lr = 1, .t_0 = 1, .t_mult = 2}, -1,
              {1, 1, .5, 1, .5 + std::sqrt(.5) / 2, .5, .5 - std::sqrt(.5) / 2, 1});
  check_rates({.type = curve::cosine_with_restarts, .base_lr = 1, .num_training_steps = 4, .num_cycles = 2}, -1,
              {1, .5, 1, .5, 0, 0});
}

BOOST_AUTO_TEST_CASE(torchs_curves_begin_behind_a_linear_warmup_to_their_first_value) {
  check_rates({.type = curve::linear, .base_lr = 3, .total_iters = 2, .num_warmup_steps = 2}, -1, {0, .5, 1, 2, 3, 3});
  check_rates({.type = curve::cosine_annealing, .base_lr = 1, .t_max = 2, .num_warmup_steps = 4}, -1,
              {0, .25, .5, .75, 1, .5, 0});
}

BOOST_AUTO_TEST_CASE(warmup_is_logarithmic_and_then_constant) {
  const schedule_options o{.type = curve::warmup, .warmup_max_lr = 0.1, .warmup_num_steps = 10};
  check_rates(o, -1, {0, 0, .030103, .047712, .060206, .069897, .077815, .084510, .090309, .095424, .1, .1, .1});
}

BOOST_AUTO_TEST_CASE(warmup_may_be_linear_from_a_least_rate) {
  const schedule_options o{.type = curve::warmup,
                           .warmup_min_lr = 0.02,
                           .warmup_max_lr = 0.1,
                           .warmup_num_steps = 4,
                           .warmup_type = core::warmup_shape::linear};
  check_rates(o, -1, {.02, .02, .04, .06, .08, .1, .1});
}

BOOST_AUTO_TEST_CASE(warmup_ends_at_the_optimizers_rate_where_none_is_given) {
  BOOST_CHECK_EQUAL(learning_rate({.type = curve::warmup, .warmup_num_steps = 2, .base_lr = 0.25}, 2), 0.25);
  BOOST_CHECK_EQUAL(
      learning_rate({.type = curve::warmup_decay, .warmup_num_steps = 2, .total_num_steps = 9, .base_lr = 0.25}, 2),
      0.001);
}

BOOST_AUTO_TEST_CASE(decay_is_linear_to_zero_and_stays_there) {
  const schedule_options o{
      .type = curve::warmup_decay, .warmup_max_lr = 0.1, .warmup_num_steps = 10, .total_num_steps = 20};
  check_rates(o, 9, {.1, .1, .09, .08, .07, .06, .05, .04, .03, .02, .01, 0, 0, 0});
}

BOOST_AUTO_TEST_CASE(cosine_falls_to_its_least_ratio) {
  const schedule_options o{.type = curve::warmup_cosine, .warmup_num_steps = 10, .total_num_steps = 20, .base_lr = 1};
  check_rates(o, 10, {.975531, .904518, .793913, .654543, .50005, .345557, .206187, .095582, .024569, .0001, .0001});
  check_rates(o, -1, {0, 0, .30103, .477121});
}

BOOST_AUTO_TEST_CASE(cosine_warms_up_from_its_least_ratio_and_scales_with_the_optimizers_rate) {
  const schedule_options o{.type = curve::warmup_cosine,
                           .warmup_num_steps = 4,
                           .total_num_steps = 20,
                           .warmup_type = core::warmup_shape::linear,
                           .warmup_min_ratio = 0.2,
                           .base_lr = 0.5};
  check_rates(o, -1, {0, .1, .2, .3, .4});
}

BOOST_AUTO_TEST_CASE(a_warmup_of_one_step_counts_as_two) {
  const schedule_options one{.type = curve::warmup, .warmup_max_lr = 1, .warmup_num_steps = 1};
  check_rates(one, -1, {0, 0, 1, 1});
}

BOOST_AUTO_TEST_CASE(without_a_schedule_the_rate_is_constant) {
  check_rates({.base_lr = 0.3}, -1, {.3, .3, .3});
  using troupe::core::schedule_type_from;
  BOOST_CHECK(schedule_type_from("WarmupCosineLR"));
  BOOST_CHECK(schedule_type_from("OneCycle"));
  BOOST_CHECK(!schedule_type_from("onecycle"));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels
