#include "plan/choose/bandwidth.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(bandwidth)

using namespace troupe::plan;

namespace {

constexpr double gigabyte = 1e9, v100 = 70e12;
const auto close = boost::test_tools::tolerance(1e-9);

/// A model of a trillion parameters, in 128 layers of width 25600, and one sequence of it.
constexpr transformer_shape trillion{.width = 25600, .batch = 1, .sequence = 1024, .checkpoint_every = 1};

}  // namespace

BOOST_AUTO_TEST_CASE(half_is_reached_if_transfers_take_as_long_as_the_arithmetic) {
  BOOST_TEST(transfer_efficiency(1024, v100 / 1024, v100) == 0.5, close);
  BOOST_TEST(transfer_efficiency(1024, 0, v100) == 0.0);
  BOOST_TEST(bandwidth_for(0.5, 1024, v100) == v100 / 1024, close);
  for (const double e : {0.1, 0.5, 0.9, 0.99})
    BOOST_TEST_CONTEXT("e " << e) BOOST_TEST(transfer_efficiency(300, bandwidth_for(e, 300, v100), v100) == e, close);
}

// ZeRO-Infinity's efficiency curves show one half at 70 GB/s for parameters, at four times that for optimizer states,
// and at 2 GB/s for activations of width 2048.
BOOST_AUTO_TEST_CASE(the_papers_readings_of_its_curves_follow) {
  const auto one = intensity_of(trillion);
  BOOST_TEST(bandwidth_for(0.5, one.parameters, v100) < 70 * gigabyte);
  BOOST_TEST(bandwidth_for(0.5, one.parameters, v100) > 65 * gigabyte);
  BOOST_TEST(one.parameters == 4 * one.optimizer, close);
  auto two = trillion;
  two.batch = 2;
  const double needed = bandwidth_for(0.9, intensity_of(two).optimizer, v100);
  BOOST_TEST(needed > 1200 * gigabyte);
  BOOST_TEST(needed < 1500 * gigabyte);
  auto narrow = trillion;
  narrow.width = 2048;
  BOOST_TEST(transfer_efficiency(intensity_of(narrow).activations, 2 * gigabyte, v100) > 0.5);
  narrow.checkpoint_every = 3;
  BOOST_TEST(intensity_of(narrow).activations == 24.0 * 2048 * 3, close);
}

BOOST_AUTO_TEST_CASE(deepspeeds_swap_traffic_grows_with_micro_batches_only_by_reads_of_parameters) {
  const auto one = swapped_by_deepspeed(1000, 2, 1), four = swapped_by_deepspeed(1000, 2, 4);
  BOOST_TEST(one.read == (4000U + 16'000) / 2);
  BOOST_TEST(one.written == 18'000U / 2);
  BOOST_TEST(four.read - one.read == 3U * 4000 / 2);
  BOOST_TEST(four.written == one.written);
}

BOOST_AUTO_TEST_SUITE_END()
