// Tests learning-rate schedules together with optimizers: settings of a schedule that the optimizer ignores cause a
// warning or an error.
#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(curves)

using namespace troupe::config;

namespace {

std::string one_cycle(const std::string& rest, const std::string& optimizer = "{type: AdamW, params: {lr: 1.0e-3}}") {
  return smallest_with("{type: AdamW, params: {lr: 1.0e-3}}", optimizer) +
         "scheduler: {type: OneCycle, params: {cycle_min_lr: 0.001, cycle_max_lr: 0.01, cycle_first_step_size: 10" +
         rest + "}}\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_first_beta_that_would_pass_its_bound_is_refused_with_the_rate_that_would_do) {
  // The run has 100 steps and the cycle 20. The last step follows 79 steps after the cycle, each a decay interval.
  const auto said = errors_of(one_cycle(", decay_step_size: 1, decay_mom_rate: 0.01"));
  BOOST_TEST(said.find("error: scheduler.params.decay_mom_rate: the first beta would reach 1.611 at step 100, beyond "
                       "0.999: wanted a rate of at most 0.001392\n") != std::string::npos,
             said);
  BOOST_TEST(errors_of(one_cycle(", decay_step_size: 1, decay_mom_rate: 0.001392")) == "");
  BOOST_TEST(errors_of(one_cycle(", decay_step_size: 1, decay_mom_rate: 0.001393")) != "");
  BOOST_TEST(errors_of(one_cycle(", decay_step_size: 1, decay_mom_rate: 0.01, cycle_momentum: false")) == "");
  BOOST_TEST(errors_of(one_cycle(", decay_mom_rate: 0.01")) == "");  // without decay_step_size there is no decay
  // A cycle of 99 steps leaves no step of the 100 after a decay interval; a cycle of 98 steps leaves one.
  BOOST_TEST(errors_of(one_cycle(", cycle_second_step_size: 89, decay_step_size: 1, decay_mom_rate: 1")) == "");
  BOOST_TEST(errors_of(one_cycle(", cycle_second_step_size: 88, decay_step_size: 1, decay_mom_rate: 0.112")) != "");
}

BOOST_AUTO_TEST_CASE(a_second_beta_that_one_cycle_replaces_is_said) {
  const auto with = [](const std::string& betas, const std::string& rest = "") {
    return warnings_of(one_cycle(rest, "{type: AdamW, params: {lr: 1.0e-3, betas: " + betas + "}}"));
  };
  BOOST_TEST(with("[0.9, 0.95]")
                     .find("optimizer.params.betas: no effect: OneCycle moves the first beta and takes 0.99 for "
                           "the second") != std::string::npos,
             with("[0.9, 0.95]"));
  BOOST_TEST(with("[0.9, 0.99]") == "");
  BOOST_TEST(with("[0.9, 0.95]", ", cycle_momentum: false") == "");
  BOOST_TEST(warnings_of(one_cycle("")) == "");
}

BOOST_AUTO_TEST_CASE(a_warm_up_that_does_not_rise_to_the_optimizers_rate_is_said) {
  const auto with = [](const std::string& rate, const std::string& rest) {
    return warnings_of(smallest_with("1.0e-3", rate) +
                       "scheduler: {type: WarmupDecayLR, params: {total_num_steps: auto, warmup_num_steps: 10" + rest +
                       "}}\n");
  };
  BOOST_TEST(with("0.25", "").find("scheduler.params.warmup_max_lr: not given: WarmupDecayLR rises to 0.001") !=
             std::string::npos);
  BOOST_TEST(with("0.25", ", warmup_max_lr: auto") == "");
  BOOST_TEST(with("0.25", ", warmup_max_lr: 0.5") == "");
  BOOST_TEST(with("0.001", "") == "");
}

BOOST_AUTO_TEST_CASE(a_curve_that_ends_long_before_the_run_is_said) {
  const auto with = [](const std::string& curve, const std::string& steps = "20") {
    return warnings_of(smallest + "scheduler: {" + curve + "}\n", {{"steps=" + steps}});
  };
  const std::string decay = "type: WarmupDecayLR, params: {warmup_max_lr: 0.1, warmup_num_steps: 4, total_num_steps: ",
                    head = "warning: scheduler.params.";
  BOOST_TEST(with(decay + "9}") == "j.yaml:9:101: " + head +
                                       "total_num_steps: the learning rate is 0 from step 11 of 20 on; set it to auto "
                                       "to span the whole run\n");
  BOOST_TEST(with(decay + "9, warmup_min_lr: 0.01}") == "");
  BOOST_TEST(with("type: LinearLR, params: {end_factor: 0}") ==
             "j.yaml:9:37: " + head +
                 "total_iters: the learning rate is 0 from step 6 of 20 on; set it to 20 to span the whole run\n");
  BOOST_TEST(with("type: LinearLR") == "");
  BOOST_TEST(with("type: PolynomialLR, params: {total_iters: 10}") ==
             "j.yaml:9:55: " + head +
                 "total_iters: the learning rate is 0 from step 11 of 20 on; set it to 20 to span the whole run\n");
  BOOST_TEST(with("type: CosineAnnealingLR, params: {T_max: 8}") ==
             "j.yaml:9:54: " + head +
                 "T_max: the learning rate falls to 0 at step 9 of 20 and rises again; set it to auto to span the "
                 "whole run\n");
  BOOST_TEST(with("type: WarmupCosineLR, params: {total_num_steps: 9, warmup_num_steps: 2, cos_min_ratio: 0}") ==
             "j.yaml:9:61: " + head +
                 "total_num_steps: the learning rate is 0 from step 10 of 20 on; set it to auto to span the whole "
                 "run\n");
  BOOST_TEST(with("type: PolynomialLR, params: {total_iters: 10, num_warmup_steps: 4}") ==
             "j.yaml:9:55: " + head +
                 "total_iters: the learning rate is 0 from step 15 of 20 on; set it to 16 to span the whole run\n");
  BOOST_TEST(with("type: warmup_stable_decay, params: {num_decay_steps: 3, num_training_steps: 9}") ==
             "j.yaml:9:89: " + head +
                 "num_training_steps: the learning rate is 0 from step 10 of 20 on; set it to auto to span the whole "
                 "run\n");
  BOOST_TEST(with("type: warmup_stable_decay, params: {num_decay_steps: 3, num_training_steps: 9, "
                  "min_lr_ratio: 0.1}") == "");
  // A schedule may end exactly at the last step of the run.
  for (const char* curve :
       {"type: PolynomialLR, params: {total_iters: 19}", "type: CosineAnnealingLR, params: {T_max: 19}",
        "type: PolynomialLR, params: {total_iters: 20}", "type: CosineAnnealingLR, params: {T_max: auto}",
        "type: CosineAnnealingLR, params: {T_max: auto, num_warmup_steps: 5}",
        "type: cosine_with_restarts, params: {num_training_steps: auto}",
        "type: warmup_stable_decay, params: {num_decay_steps: 3, num_training_steps: auto}"})
    BOOST_TEST_CONTEXT(curve) BOOST_TEST(with(curve) == "");
  BOOST_TEST(with(decay + "auto}") == "");
}

BOOST_AUTO_TEST_CASE(a_last_stage_that_the_run_does_not_reach_is_said) {
  const auto with = [](const std::string& steps) {
    return warnings_of(smallest + "scheduler: {type: warmup_stable_decay, params: {num_decay_steps: 5, "
                                  "num_training_steps: 30}}\n",
                       {{"steps=" + steps}});
  };
  BOOST_TEST(with("26") ==
             "j.yaml:9:89: warning: scheduler.params.num_training_steps: the learning rate never comes down: it is "
             "constant up to step 26, and the run has 26\n");
  BOOST_TEST(with("27") == "");
}

BOOST_AUTO_TEST_CASE(a_warm_up_that_is_longer_than_the_run_is_said) {
  const auto with = [](const std::string& curve, const std::string& steps = "20") {
    return warnings_of(smallest + "scheduler: {type: " + curve + "}\n", {{"steps=" + steps}});
  };
  const std::string said =
      "warning: scheduler.params.warmup_num_steps: the learning rate never reaches its highest value: the warm-up "
      "takes ";
  BOOST_TEST(with("WarmupLR, params: {warmup_num_steps: 21}") ==
             "j.yaml:9:56: " + said + "21 steps, and the run has 20\n");
  BOOST_TEST(with("WarmupLR, params: {warmup_num_steps: auto}")
                 .ends_with(said + "1000 steps by default, and the run has "
                                   "20\n"));
  BOOST_TEST(with("WarmupLR").ends_with(said + "1000 steps by default, and the run has 20\n"));
  BOOST_TEST(with("WarmupCosineLR, params: {total_num_steps: 50, warmup_num_steps: 30}")
                 .ends_with(said + "30 steps, and the run has 20\n"));
  BOOST_TEST(with("CosineAnnealingLR, params: {T_max: 9, num_warmup_steps: 30}").ends_with(
      "scheduler.params.num_warmup_steps: the learning rate never reaches its highest value: the warm-up takes 30 "
      "steps, and the run has 20\n"));
  BOOST_TEST(with("WarmupLR, params: {warmup_num_steps: 20}") == "");
  BOOST_TEST(with("WarmupLR", "1000") == "");
  BOOST_TEST(with("LRRangeTest") == "");
}

BOOST_AUTO_TEST_CASE(keys_of_one_cycle_that_act_after_the_run_are_said) {
  // The cycle has 20 steps; its first half ends in step 11, and the first decay is in step 22.
  const auto with = [](const std::string& rest, const std::string& steps) {
    return warnings_of(one_cycle(rest), {{"steps=" + steps}});
  };
  const std::string head = "warning: scheduler.params.", half =
                                                             ": no effect: it acts after the first half of OneCycle, "
                                                             "which takes 10 steps, and the run has 11\n";
  const std::string decays = ", decay_step_size: 1, decay_lr_rate: 0.5";
  BOOST_TEST(with(decays, "21")
                 .ends_with(head + "decay_step_size: no effect: it acts after the cycle of OneCycle, which takes "
                                   "20 steps, and the run has 21\n"));
  BOOST_TEST(with(decays, "22") == "");
  BOOST_TEST(with(", cycle_second_step_size: 30", "11").ends_with(head + "cycle_second_step_size" + half));
  BOOST_TEST(with(", cycle_second_stair_count: 3", "11").ends_with(head + "cycle_second_stair_count" + half));
  BOOST_TEST(with(", cycle_second_step_size: 30, cycle_second_stair_count: 3", "12") == "");
  BOOST_TEST(with("", "4") == "");
}

BOOST_AUTO_TEST_CASE(an_optimizer_that_would_make_the_loss_larger_is_refused) {
  const auto with = [](const std::string& value) {
    return smallest_with("{lr: 1.0e-3}", "{lr: 1.0e-3, maximize: " + value + "}");
  };
  BOOST_TEST(errors_of(with("true"))
                 .find("error: optimizer.params.maximize: only false is supported in this version, got true") !=
             std::string::npos);
  BOOST_TEST(warnings_of(with("false")) == "");
}

BOOST_AUTO_TEST_SUITE_END()
