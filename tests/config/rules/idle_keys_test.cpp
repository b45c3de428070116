// Tests keys that have no effect because of other keys: the reader warns about each by name, and refuses a key whose
// effect would end the run.
#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(idle_keys)

using namespace troupe::config;

namespace {

/// Returns the warnings of the smallest file with `line` added as line 9, or its errors if it cannot be loaded.
std::string told(const std::string& line) { return warnings_of(smallest + line + "\n"); }

}  // namespace

BOOST_AUTO_TEST_CASE(evaluations_between_steps_require_a_part_that_is_held_out) {
  const std::string every = "evaluation: {every_steps: 4}\n";
  BOOST_TEST(errors_of(smallest + every) ==
             "j.yaml:9:27: error: evaluation.every_steps: requires a part of the text that is never trained on; set "
             "data.validation_fraction, such as 0.05, or remove this key, got 4\n");
  BOOST_TEST(warnings_of(smallest + every, {{"data.validation_fraction=0.1"}}) == "");
  BOOST_TEST(warnings_of(smallest_with("{text: corpus.txt}",
                                       "{sources: [{text: a}, {text: b}], "
                                       "validation_fraction: 0.1}") +
                         every) == "");
  // An interval of 100 steps schedules no evaluation before the last step, and after the last step none runs without
  // validation data.
  BOOST_TEST(warnings_of(smallest + every, {{"evaluation.every_steps=100"}}) ==
             "--set evaluation.every_steps=100: warning: evaluation.every_steps: no effect: there is no "
             "data.validation_fraction\n");
  BOOST_TEST(told("evaluation: {batches: 2}") ==
             "j.yaml:9:14: warning: evaluation.batches: no effect: there is no data.validation_fraction\n");
  BOOST_TEST(told("evaluation: {every_steps: 0, batches: 0}") == "");
}

BOOST_AUTO_TEST_CASE(keys_of_what_is_switched_off_are_said) {
  const std::string head = "j.yaml:9:", none = ": no effect: ";
  BOOST_TEST(told("activation_checkpointing: {number_checkpoints: 4}") ==
             head + "28: warning: activation_checkpointing.number_checkpoints" + none +
                 "activation_checkpointing.enabled is false\n");
  BOOST_TEST(told("activation_checkpointing: {number_checkpoints: 4, enabled: true}") == "");
  BOOST_TEST(told("pipeline: {schedule: gpipe}") ==
             head + "12: warning: pipeline.schedule" + none + "parallel.pipeline is 1\n");
  BOOST_TEST(told("pipeline: {schedule: 1f1b, profile: always}") == "");
  BOOST_TEST(warnings_of(smallest_with("data: 2", "data: 2, pipeline: 2") + "pipeline: {schedule: gpipe}\n") == "");
  BOOST_TEST(told("telemetry: {trace_from_step: 101}") ==
             head + "13: warning: telemetry.trace_from_step" + none + "the run ends after step 100, before it\n");
  BOOST_TEST(told("telemetry: {trace_from_step: 100}") == "");
}

BOOST_AUTO_TEST_CASE(checkpoints_that_no_rule_keeps_are_said) {
  const std::string last = "warning: checkpoint.keep_last: ", every = "warning: checkpoint.keep_every: ",
                    requested =
                        "acts only on checkpoints that are requested, such as by SIGUSR1, because neither "
                        "checkpoint.every_steps nor checkpoint.every_minutes is set\n";
  BOOST_TEST(told("checkpoint: {keep_last: 2}") == "j.yaml:9:25: " + last + requested);
  BOOST_TEST(told("checkpoint: {keep_every: 2}") == "j.yaml:9:26: " + every + requested);
  BOOST_TEST(told("checkpoint: {keep_last: 2, every_minutes: 10}") == "");
  BOOST_TEST(told("checkpoint: {keep_last: 2, keep_every: 8, every_steps: 4}") == "");
  const std::string due =
      ", because checkpoints are due every 4 steps (checkpoint.every_steps); a multiple of that number keeps more\n";
  BOOST_TEST(told("checkpoint: {keep_every: 3, every_steps: 4}") ==
             "j.yaml:9:26: " + every + "keeps those of multiples of 12 steps alone" + due);
  BOOST_TEST(told("checkpoint: {keep_every: 51, every_steps: 4}") ==
             "j.yaml:9:26: " + every + "keeps none of them before the end, after 100 steps" + due);
  BOOST_TEST(told("checkpoint: {keep_every: 3, every_steps: 4, every_minutes: 1}") == "");
}

BOOST_AUTO_TEST_CASE(a_host_with_batches_of_its_own_evaluates_without_a_held_out_part) {
  load_options host;
  host.read_as = reading::host_job;
  BOOST_TEST(warnings_of("train_micro_batch_size_per_gpu: 1\nsteps: 5\noptimizer: {type: AdamW}\n"
                         "evaluation: {every_steps: 2, batches: 3}\n",
                         host) == "");
}

BOOST_AUTO_TEST_SUITE_END()
