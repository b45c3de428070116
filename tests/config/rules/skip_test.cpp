// Tests the keys for skipped samples and for the reaction to loss spikes: which values are accepted, and errors.
#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(skip)

using namespace troupe::config;

namespace {

job_config must_load(const std::string& text) {
  const auto l = load_text(text, "j.yaml", "/base", {});
  BOOST_REQUIRE_MESSAGE(l, (l ? std::string() : render(l.error())));
  return l->config;
}

std::string skip_errors(const std::string& list) {
  return errors_of(smallest_with("{text: corpus.txt}", "{text: corpus.txt, skip: " + list + "}"));
}

const std::string saves = "checkpoint: {every_steps: 10}\n";
std::string spike_errors(const std::string& keys, const std::string& more = saves) {
  return errors_of(smallest + "on_spike: " + keys + "\n" + more);
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_are_one_step_or_a_range) {
  const auto c =
      must_load(smallest_with("{text: corpus.txt}", "{text: corpus.txt, skip: [{steps: 812-820}, {steps: 900}]}"));
  BOOST_REQUIRE(c.data.skip.size() == 2U);
  BOOST_TEST(c.data.skip[0].first == 812U);
  BOOST_TEST(c.data.skip[0].last == 820U);
  BOOST_TEST(c.data.skip[1].first == 900U);
  BOOST_TEST(c.data.skip[1].last == 900U);
}

BOOST_AUTO_TEST_CASE(steps_that_are_none_are_refused_where_they_stand) {
  for (const char* wrong : {"0-3", "7-5", "a", "3-", "-4", "1-2-3", "' 3'", "1.5", "1-1000000000001"}) {
    const std::string told = skip_errors(std::string("[{steps: ") + wrong + "}]");
    BOOST_TEST(told.find("error: data.skip[0].steps: wanted ") != std::string::npos, wrong << ": " << told);
  }
  BOOST_TEST(skip_errors("[{steps: 7-5}]") ==
             "j.yaml:2:41: error: data.skip[0].steps: wanted a step from 1 to 1000000000000, or a range such as "
             "812-820, got `7-5`\n");
  BOOST_TEST(skip_errors("[{}]").find("data.skip[0].steps") != std::string::npos);
  BOOST_TEST(skip_errors("[812-820]").find("data.skip[0]: wanted a mapping") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_watch_has_its_defaults) {
  const auto c = must_load(smallest + "on_spike: {action: skip}\n" + saves).on_spike;
  BOOST_TEST((c.action == spike_action::skip));
  BOOST_TEST(c.factor == 3.0);
  BOOST_TEST(c.window == 100U);
  BOOST_TEST(c.min_steps == 20U);
  BOOST_TEST(c.back_steps == 1U);
  BOOST_TEST(c.ahead_steps == 0U);
  BOOST_TEST(c.times_max == 10U);
  BOOST_TEST((must_load(smallest).on_spike.action == spike_action::none));
  BOOST_TEST((must_load(smallest + "on_spike: {action: stop, factor: 1.5}\n").on_spike.action == spike_action::stop));
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_finite_ends_no_run_that_can_go_back) {
  BOOST_TEST(!must_load(smallest).skips_overflow());
  const auto c = must_load(smallest + "on_spike: {action: skip}\n" + saves);
  BOOST_TEST(c.skips_overflow());
  BOOST_TEST(!c.expects_overflow());
}

BOOST_AUTO_TEST_CASE(a_run_that_has_nothing_to_go_back_to_is_refused) {
  BOOST_TEST(
      spike_errors("{action: skip}", "") ==
      "j.yaml:9:20: error: on_spike.action: skip: requires saved states to go back to; set checkpoint.every_steps, "
      "checkpoint.every_minutes, or checkpoint.memory.every_steps with several processes\n");
  BOOST_TEST(spike_errors("{action: skip}", "checkpoint: {every_minutes: 5}\n") == "");
  BOOST_TEST(spike_errors("{action: skip}", "cluster: {processes: ranks}\n") == "");
  BOOST_TEST(spike_errors("{action: skip}", "cluster: {processes: ranks}\ncheckpoint: {memory: {every_steps: 0}}\n")
                 .starts_with("j.yaml:9:20: error: on_spike.action: skip"));
  BOOST_TEST(spike_errors("{action: stop}", "") == "");
}

BOOST_AUTO_TEST_CASE(checkpoints_that_do_not_reach_back_far_enough_are_said) {
  const auto said = [](const std::string& back, const std::string& checkpoints) {
    return warnings_of(smallest + "on_spike: {action: skip, back_steps: " + back + "}\ncheckpoint: {" + checkpoints +
                       "}\n");
  };
  BOOST_TEST(said("12", "every_steps: 5, keep_last: 2") ==
             "j.yaml:9:38: warning: on_spike.back_steps: no checkpoint is that old: the last 2 (checkpoint.keep_last), "
             "one every 5 steps, reach back 10 steps, and 12 are wanted; raise checkpoint.keep_last or set "
             "checkpoint.keep_every\n");
  // Until the loss after the newest checkpoint is known, one checkpoint more than keep_last exists.
  BOOST_TEST(said("11", "every_steps: 5, keep_last: 2") == "");
  BOOST_TEST(said("12", "every_steps: 5, keep_last: 3") == "");
  BOOST_TEST(said("12", "every_steps: 5") == "");
  BOOST_TEST(said("12", "every_steps: 5, keep_last: 2, keep_every: 10") == "");
}

BOOST_AUTO_TEST_CASE(values_that_watch_nothing_are_refused) {
  BOOST_TEST(spike_errors("{action: skip, window: 10}") ==
             "j.yaml:9:11: error: on_spike.min_steps: wanted at most on_spike.window, 10, got 20\n");
  BOOST_TEST(spike_errors("{action: skip, factor: 1}") ==
             "j.yaml:9:34: error: on_spike.factor: wanted a number above 1 and at most 1000000, got 1\n");
  BOOST_TEST(spike_errors("{action: jump}") ==
             "j.yaml:9:20: error: on_spike.action: wanted one of none, skip, stop, got jump\n");
}

BOOST_AUTO_TEST_CASE(a_host_with_batches_of_its_own_leaves_none_out) {
  load_options options;
  options.read_as = reading::host_job;
  const std::string host = "train_micro_batch_size_per_gpu: 1\nsteps: 5\noptimizer: {type: AdamW}\n";
  BOOST_TEST(errors_of(host + "on_spike: {action: skip}\n", options).find("on_spike.action: wanted none or stop") !=
             std::string::npos);
  BOOST_TEST(errors_of(host + "on_spike: {action: stop}\n", options) == "");
  BOOST_TEST(errors_of(host + "data: {skip: [{steps: 3}]}\n", options).find("data.skip[0].steps") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
