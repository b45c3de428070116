// Tests that a host program's hooks may throw: a step is recorded as done before they are called.
#include <filesystem>
#include <stdexcept>

#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_hooks)

using namespace troupe;
using namespace troupe::tests;

namespace {

struct weary : std::runtime_error {
  weary() : std::runtime_error("the host has had enough") {}
};

std::unique_ptr<actors::session> open_with(const small_job& job, const settings& set, actors::session_hooks hooks) {
  auto s = actors::session::open(job.config(set), std::move(hooks));
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

// Settings with fp16 and with all other values that a step changes: learning rate, loss scale, optimizer states.
const settings moving = {"fp16.enabled=true", "scheduler.type=WarmupLR", "scheduler.params.warmup_max_lr=1.0e-2",
                         "scheduler.params.warmup_num_steps=8", "data.validation_fraction=0.1"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_whose_hook_throws_is_done_once_and_changes_no_later_step) {
  const small_job job;
  auto plain = job.open(moving);
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(step_of(*plain).loss);

  uint64_t reported = 0;
  actors::session_hooks hooks;
  hooks.on_step = [&](const actors::step_report& r) {
    reported = r.step;
    BOOST_TEST(r.loss == losses[r.step - 1]);
    if (r.step == 2) throw weary();
  };
  auto s = open_with(job, moving, std::move(hooks));
  step_of(*s);
  BOOST_CHECK_THROW((void)s->step(), weary);
  BOOST_TEST(s->steps_done() == 2U);
  BOOST_TEST(step_of(*s).loss == losses[2]);
  BOOST_TEST(step_of(*s).loss == losses[3]);
  BOOST_TEST(reported == 4U);
  BOOST_TEST(parameter_of(*s, 0) == parameter_of(*plain, 0), boost::test_tools::per_element());
}

// A step writes its log line before it calls on_step. A log hook that threw in that call once made the step be applied
// twice.
BOOST_AUTO_TEST_CASE(a_step_whose_log_line_throws_is_done_once) {
  const small_job job;
  const settings verbose = moving + settings{"comms_logger.enabled=true", "comms_logger.verbose=true"};
  auto plain = job.open(verbose);
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(step_of(*plain).loss);

  size_t lines = 0, thrown = 0;
  actors::session_hooks hooks;
  hooks.on_log = [&](const std::string&) {
    if (lines++ % 5 == 2) {
      ++thrown;
      throw weary();
    }
  };
  auto s = open_with(job, verbose, std::move(hooks));
  while (s->steps_done() < 4) {
    const uint64_t before = s->steps_done();
    try {
      BOOST_TEST(step_of(*s).loss == losses[before]);
    } catch (const weary&) {
    }
    BOOST_TEST_REQUIRE(s->steps_done() == before + 1);
  }
  BOOST_TEST(thrown > 0U);
  BOOST_TEST(parameter_of(*s, 0) == parameter_of(*plain, 0), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(hooks_of_evaluations_and_saves_may_throw_too) {
  const small_job job;
  actors::session_hooks hooks;
  hooks.on_evaluation = [](uint64_t, double) { throw weary(); };
  hooks.on_saved = [](const actors::save_report& r) {
    BOOST_TEST(!r.failure.has_value());
    throw weary();
  };
  auto s = open_with(job, {"data.validation_fraction=0.1"}, std::move(hooks));
  step_of(*s);
  BOOST_CHECK_THROW((void)s->evaluate(), weary);
  actors::save_request request;
  request.root = job.folder() / "checkpoints";
  BOOST_CHECK_THROW((void)s->save(request), weary);
  BOOST_TEST(!s->save_under_way());
  BOOST_TEST(std::filesystem::exists(request.root / "latest"));
  BOOST_TEST(step_of(*s).step == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
