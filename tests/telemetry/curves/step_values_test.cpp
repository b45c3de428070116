// Tests that the labels of a step's values are those of DeepSpeed, and that printed lines can be read back.
#include "telemetry/curves/step_values.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(step_values)

using namespace troupe::telemetry;

namespace {

std::set<std::string> labels_of(const label_options& o) {
  std::set<std::string> out;
  for (const auto& v : labelled({}, {}, o)) out.emplace(v.label);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_loss_scale_is_fp16s_and_the_times_are_the_breakdowns) {
  const auto plain = labels_of({});
  BOOST_TEST(plain.count("Train/Samples/lr") == 1U);
  BOOST_TEST(plain.count("Train/Samples/train_loss") == 1U);
  BOOST_TEST(plain.count("Train/Samples/loss_scale") == 0U);
  BOOST_TEST(labels_of({true, false}).count("Train/Samples/loss_scale") == 1U);
  const auto timed = labels_of({false, true});
  for (const char* part : {"forward", "backward", "backward_inner", "backward_allreduce", "step"})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(timed.count(std::string("Train/Samples/elapsed_time_ms_") + part) == 1U);
  BOOST_TEST(timed.size() == plain.size() + 5);
}

BOOST_AUTO_TEST_CASE(every_label_that_is_written_is_in_the_list_of_all) {
  auto written = labels_of({true, true});
  written.emplace(validation_label);
  BOOST_TEST(written == std::set<std::string>(all_labels.begin(), all_labels.end()), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(values_are_under_their_labels) {
  troupe::telemetry::step_values v;
  v.samples = 8;
  v.tokens = 512;
  v.seconds = 0.25;
  v.loss = 3.5;
  for (const auto& x : labelled(v, {}, {})) {
    if (x.label == "Train/Samples/train_loss") BOOST_TEST(x.value == 3.5);
    if (x.label == "Train/Samples/samples_per_s") BOOST_TEST(x.value == 32.0);
    if (x.label == "Train/Samples/tokens_per_s") BOOST_TEST(x.value == 2048.0);
  }
  v.seconds = 0;
  for (const auto& x : labelled(v, {}, {})) BOOST_TEST(std::isfinite(x.value), x.label);
}

BOOST_AUTO_TEST_CASE(json_lines_read_back_whatever_the_loss_is) {
  troupe::telemetry::step_values v;
  v.step = 7;
  v.loss = 1.0 / 3;
  v.skipped = true;
  v.control_idle_s = 0.00125;
  const auto back = nlohmann::json::parse(json_line(v, {1, 2, 3, 4, 5}));
  BOOST_TEST(back.at("control_idle_s") == 0.00125);
  BOOST_TEST(back.at("step") == 7);
  BOOST_TEST(back.at("loss").get<double>() == 1.0 / 3);
  BOOST_TEST(back.at("skipped") == true);
  BOOST_TEST(back.at("backward_ms") == 4.0);
  v.loss = NAN;
  BOOST_TEST(nlohmann::json::parse(json_line(v, {})).at("loss").is_null());
  BOOST_TEST(nlohmann::json::parse(json_line(validation_values{3, 24, 0.5, 1})).at("validation_loss") == 0.5);
  const auto of_set = nlohmann::json::parse(json_line(validation_values{3, 24, 0.5, 1, "books", false}));
  BOOST_TEST((of_set.at("validation_loss") == 0.5 && of_set.at("set") == "books"));
  BOOST_TEST(label_of_set("books") == "Validation/books/loss");
  BOOST_TEST(label_of_set("") == validation_label);
}

BOOST_AUTO_TEST_CASE(the_line_of_times_names_deepspeeds_timers) {
  BOOST_TEST(breakdown_line({1, 2, 3, 4, 5}) ==
             "time (ms) | fwd: 1.00 | bwd: 4.00 | bwd_inner: 2.00 | bwd_allreduce: 3.00 | step: 5.00");
}

BOOST_AUTO_TEST_CASE(a_line_of_metrics_has_every_value_and_null_for_those_that_are_not_finite) {
  BOOST_TEST(json_line(metric_values{3, 24, {{"a-1", 0.5}, {"b.c", std::numeric_limits<double>::infinity()}}, 1.5}) ==
             "{\"step\":3,\"global_samples\":24,\"metrics\":{\"a-1\":0.5,\"b.c\":null},\"unix_s\":1.5}");
}

BOOST_AUTO_TEST_SUITE_END()
