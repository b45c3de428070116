// Tests the rules of steps with different numbers of micro-batches: a batch that grows, and numbers that a host program
// decides.
#include "config/sections/step_counts.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(counts)

using namespace troupe::config;

namespace {

/// Returns the smallest job, of two data ranks at stage 3, with a batch of 32 samples in micro-batches of 2, `ramp` as
/// data.rampup_batch_size, and the further lines `more`.
std::string job_with(const std::string& ramp, const std::string& more) {
  std::string text = smallest;
  const auto replace = [&](const std::string& piece, const std::string& instead) {
    text.replace(text.find(piece), piece.size(), instead);
  };
  replace("train_micro_batch_size_per_gpu: 4", "train_batch_size: 32\ntrain_micro_batch_size_per_gpu: 2");
  if (!ramp.empty()) replace("{text: corpus.txt}", "{text: corpus.txt, rampup_batch_size: " + ramp + "}");
  return text + more;
}
job_config loaded(const std::string& ramp, const std::string& more = {}) {
  const auto l = load_text(job_with(ramp, more), "j.yaml", "/base", {});
  BOOST_REQUIRE_MESSAGE(l, (l ? std::string() : render(l.error())));
  return l->config;
}
void check_refused(const std::string& ramp, const std::string& more, const std::string& what) {
  const std::string told = errors_of(job_with(ramp, more));
  BOOST_TEST(told.find(what) != std::string::npos, ramp << more << ": " << told);
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_have_one_number_of_micro_batches_unless_a_key_says_otherwise) {
  BOOST_TEST(!has_other_counts(loaded("")));
  BOOST_TEST(other_step_counts(loaded("")).empty());
}

BOOST_AUTO_TEST_CASE(a_batch_that_grows_has_the_numbers_below_the_whole) {
  BOOST_TEST((other_step_counts(loaded("[8, 12, 100]")) == std::vector<uint32_t>{2, 5}));
  BOOST_TEST((other_step_counts(loaded("[8, 24, 100]")) == std::vector<uint32_t>{2}));
}

BOOST_AUTO_TEST_CASE(a_host_program_chooses_up_to_the_accumulation_steps) {
  const auto c = loaded("", "managed_gradient_accumulation: false\n");
  BOOST_TEST(!c.managed_gradient_accumulation);
  BOOST_TEST((other_step_counts(c) == std::vector<uint32_t>{1, 2, 4}));
}

BOOST_AUTO_TEST_CASE(a_ramp_that_does_not_fit_the_batch_is_refused) {
  check_refused("[8, 12]", "", "data.rampup_batch_size: wanted a list of three numbers");
  check_refused("[32, 4, 10]", "", "wanted a first batch below train_batch_size, 32, got 32");
  check_refused("[6, 4, 10]", "",
                "wanted a multiple of train_micro_batch_size_per_gpu x parallel.data, 4, as the first batch, got 6");
  check_refused("[8, 3, 10]", "", "4, as the increment, got 3");
  check_refused("[8, 16, 10]", "", "wanted an increment that divides the growth of the batch from 8 to 32, got 16");
  check_refused("[0, 4, 10]", "", "data.rampup_batch_size: wanted");
}

BOOST_AUTO_TEST_CASE(a_choice_for_one_number_of_micro_batches_is_refused_beside_others) {
  const std::string free = "managed_gradient_accumulation: false\n";
  check_refused("", free + "compile: {deepcompile: true}\n",
                "managed_gradient_accumulation: cannot be combined with compile.deepcompile");
  check_refused("[8, 12, 100]", "pipeline: {schedule: search}\n", "cannot be combined with a pipeline.schedule");
  check_refused("[8, 12, 100]", "gradient_order: per_step\n",
                "data.rampup_batch_size: wanted gradient_order: automatic");
  BOOST_TEST(errors_of(job_with("", free + "gradient_order: per_micro_batch\n")).empty());
}

BOOST_AUTO_TEST_SUITE_END()
