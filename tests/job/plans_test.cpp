// Tests the plans of a configuration that programs get: one for each rank, proved, for every kind of step.
#include "job/plans.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/load.hpp"
#include "plan/check/check.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(plans)

using namespace troupe;
using troupe::tests::check_failed;
using troupe::tests::check_ok;

namespace {

std::shared_ptr<const config::job_config> config_of(const std::vector<std::string>& set) {
  const std::string text =
      "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n"
      "data: {text: corpus.txt, sequence_length: 16}\n"
      "seed: 7\n"
      "steps: 10\n"
      "train_micro_batch_size_per_gpu: 2\n"
      "gradient_accumulation_steps: 4\n"
      "parallel: {data: 3}\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\n";
  config::load_options options;
  options.overrides = set;
  auto loaded = config::load_text(text, "job.yaml", "/base", options);
  BOOST_TEST_REQUIRE(loaded.has_value(), (loaded ? std::string() : config::render(loaded.error())));
  return std::make_shared<const config::job_config>(std::move(loaded->config));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_kind_of_step_has_a_proved_plan_for_each_rank) {
  for (const auto which : {plan::plan_choice::train, plan::plan_choice::evaluate, plan::plan_choice::save}) {
    const auto ranks = check_ok(job::make_plans(config_of({"zero_optimization.stage=3"}), which));
    BOOST_REQUIRE(ranks->size() == 3U);
    for (uint32_t r = 0; r < ranks->size(); ++r) {
      BOOST_TEST((*ranks)[r]->rank == r);
      BOOST_TEST(((*ranks)[r]->options().mode == plan::mode_of(which)));
    }
    check_ok(plan::check(*ranks));
  }
}

BOOST_AUTO_TEST_CASE(a_configuration_that_has_no_plan_is_refused_with_its_key) {
  check_failed(job::make_plans(config_of({"parallel.pipeline=9"})), "parallel.pipeline");
}

BOOST_AUTO_TEST_SUITE_END()
