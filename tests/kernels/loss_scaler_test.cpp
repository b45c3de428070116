#include "kernels/optimizer/loss_scaler.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

namespace troupe::kernels {
BOOST_AUTO_TEST_SUITE(loss_scaler)

namespace {
const loss_scale_options small{.initial_scale_power = 8, .loss_scale_window = 2, .hysteresis = 2};

/// Runs the steps in the text ("o" overflows, "g" does not) and returns "scale,hysteresis" after each.
std::string walk(const loss_scale_options& options, const std::string& steps) {
  auto state = first_loss_scale(options);
  std::string out;
  for (const char c : steps) {
    state = next_loss_scale(options, state, c == 'o').value();
    out += fmt::format("{},{} ", static_cast<int>(state.cur_scale), state.cur_hysteresis);
  }
  return out;
}
}  // namespace

BOOST_AUTO_TEST_CASE(good_steps_double_the_scale_every_window_after_the_first) {
  BOOST_CHECK_EQUAL(walk(small, "ggggg"), "256,2 256,2 512,2 512,2 1024,2 ");
}

BOOST_AUTO_TEST_CASE(overflows_use_up_the_hysteresis_and_then_halve) {
  BOOST_CHECK_EQUAL(walk(small, "ooogggggoo"), "256,1 128,1 64,1 64,1 64,1 128,2 128,2 256,2 256,1 128,1 ");
}

BOOST_AUTO_TEST_CASE(consecutive_hysteresis_is_refilled_by_every_good_step) {
  BOOST_CHECK_EQUAL(walk(small, "ogogo"), "256,1 256,1 128,1 128,1 64,1 ");
  auto consecutive = small;
  consecutive.consecutive_hysteresis = true;
  BOOST_CHECK_EQUAL(walk(consecutive, "ogogo"), "256,1 256,2 256,1 256,2 256,1 ");
}

BOOST_AUTO_TEST_CASE(without_hysteresis_the_first_overflow_halves) {
  auto options = small;
  options.hysteresis = 1;
  BOOST_CHECK_EQUAL(walk(options, "og"), "128,1 128,1 ");
}

BOOST_AUTO_TEST_CASE(the_scale_stops_at_its_least_value_and_then_fails) {
  auto options = small;
  options.min_loss_scale = 100;
  BOOST_CHECK_EQUAL(walk(options, "ooo"), "256,1 128,1 100,1 ");
  auto state = first_loss_scale(options);
  for (int i = 0; i < 3; ++i) state = next_loss_scale(options, state, true).value();
  const auto failed = next_loss_scale(options, state, true);
  BOOST_REQUIRE(!failed);
  BOOST_CHECK(failed.error().kind == core::error_kind::numeric);
  BOOST_CHECK_EQUAL(failed.error().text,
                    "loss scale: wanted finite gradients at the least scale 100 (fp16.min_loss_scale), got an overflow "
                    "at step 4");
}

BOOST_AUTO_TEST_CASE(a_fixed_scale_never_moves_and_never_fails) {
  BOOST_CHECK_EQUAL(walk({.loss_scale = 128}, "gogooooggggg"),
                    "128,2 128,2 128,2 128,2 128,2 128,2 128,2 128,2 128,2 128,2 128,2 128,2 ");
}

BOOST_AUTO_TEST_CASE(a_copied_state_continues_like_the_original) {
  auto state = first_loss_scale(small);
  for (const bool overflow : {true, false, false}) state = next_loss_scale(small, state, overflow).value();
  auto copy = state;
  for (const bool overflow : {false, true, false, false, false}) {
    BOOST_TEST_INFO_SCOPE("overflow " << overflow);
    state = next_loss_scale(small, state, overflow).value();
    copy = next_loss_scale(small, copy, overflow).value();
    BOOST_CHECK(state == copy);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels
