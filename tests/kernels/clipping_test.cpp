#include "kernels/optimizer/clipping.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

namespace troupe::kernels {
BOOST_AUTO_TEST_SUITE(clipping)

BOOST_AUTO_TEST_CASE(a_norm_within_its_limit_leaves_gradients_as_they_are) {
  BOOST_TEST(clip_factor(0, 1) == 1.0);
  BOOST_TEST(clip_factor(0.5, 1) == 1.0);
  BOOST_TEST(clip_factor(0.999, 1) == 1.0);
}

BOOST_AUTO_TEST_CASE(a_larger_norm_is_divided_down_to_its_limit) {
  BOOST_TEST(clip_factor(3, 1.5) == 3.000001 / 1.5);
  BOOST_TEST(12 / clip_factor(12, 0.25) <= 0.25);
  // A norm just below its limit clips, too, because 1e-6 is added to the norm, as in DeepSpeed.
  BOOST_TEST(clip_factor(0.9999999, 1) > 1.0);
}

BOOST_AUTO_TEST_CASE(no_limit_clips_nothing) {
  BOOST_TEST(clip_factor(1e30, 0) == 1.0);
  BOOST_TEST(clip_factor(std::numeric_limits<double>::infinity(), 0) == 1.0);
}

BOOST_AUTO_TEST_CASE(norms_that_are_not_finite_give_one_or_infinity) {
  BOOST_TEST(clip_factor(std::nan(""), 1) == 1.0);
  BOOST_TEST(std::isinf(clip_factor(std::numeric_limits<double>::infinity(), 1)));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels
