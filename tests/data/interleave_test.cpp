// Tests that in any prefix of the order each source's share deviates from its weight by less than one sample, whatever
// the weights.
#include "data/interleave.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>
#include <random>

BOOST_AUTO_TEST_SUITE(interleave)

using namespace troupe;

namespace {

std::vector<uint64_t> shares_of(const std::vector<double>& weights) {
  const auto shares = data::shares_of(weights);
  BOOST_REQUIRE_MESSAGE(shares, shares.error().text);
  return *shares;
}

void check_refused(const std::vector<double>& weights, const std::string& words) {
  const auto shares = data::shares_of(weights);
  BOOST_REQUIRE(!shares);
  BOOST_TEST(shares.error().text.find(words) != std::string::npos, shares.error().text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(decimal_weights_become_the_smallest_whole_numbers) {
  using v = std::vector<uint64_t>;
  BOOST_TEST(shares_of({1}) == v{1}, boost::test_tools::per_element());
  BOOST_TEST(shares_of({0.7, 0.3}) == (v{7, 3}), boost::test_tools::per_element());
  BOOST_TEST(shares_of({2, 4, 6}) == (v{1, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST(shares_of({0.125, 1}) == (v{1, 8}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(other_weights_are_rounded_and_no_source_is_left_out) {
  for (const std::vector<double>& weights :
       {std::vector<double>{1, std::sqrt(2.0)}, {1e-9, 1}, {1e9, 1, 1e-9}, {1.0 / 3, 1.0 / 7, 1.0 / 11}}) {
    const auto shares = shares_of(weights);
    BOOST_TEST(std::accumulate(shares.begin(), shares.end(), uint64_t{0}) == data::max_pattern);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (size_t i = 0; i < weights.size(); ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      BOOST_TEST(shares[i] > 0U);
      BOOST_TEST(std::abs(double(shares[i]) - weights[i] / sum * double(data::max_pattern)) <= double(weights.size()));
    }
  }
}

BOOST_AUTO_TEST_CASE(invalid_weights_are_refused) {
  check_refused({}, "wanted 1 to 1024 sources, got 0");
  check_refused({1, 0}, "must be above 0, got 0");
  check_refused({1, -2}, "must be above 0, got -2");
  check_refused({std::nan("")}, "must be above 0, got nan");
  check_refused(std::vector<double>(1025, 1.0), "got 1025");
  check_refused({1.6e308, 0.8e308}, "a sum that is a number");
}

BOOST_AUTO_TEST_CASE(every_prefix_holds_the_proportions_within_one_sample) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    std::vector<uint64_t> shares(1 + random() % 12);
    for (auto& s : shares) s = 1 + random() % (round % 2 == 0 ? 9 : 200);
    const uint64_t sum = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
    const data::interleave mix(shares);
    std::vector<uint64_t> come(shares.size());
    for (uint64_t n = 1; n <= 2 * sum; ++n) {
      BOOST_TEST_INFO_SCOPE("n " << n);
      const auto place = mix.at(n - 1);
      BOOST_REQUIRE(place.index == come[place.source]);  // the samples of each source must keep their order
      ++come[place.source];
      for (size_t i = 0; i < shares.size(); ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        BOOST_REQUIRE(come[i] * sum + sum > n * shares[i]);
        BOOST_REQUIRE(come[i] * sum < n * shares[i] + sum);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_position_far_away_costs_no_more) {
  const data::interleave mix(std::vector<uint64_t>{3, 1});
  const uint64_t far = uint64_t{1} << 60;
  uint64_t first = 0;
  for (uint64_t i = 0; i < 4; ++i) first += mix.at(far + i).source == 0;
  BOOST_TEST(first == 3U);
  BOOST_TEST(mix.at(far).index + mix.at(far + 3).index >= far / 4);
  BOOST_TEST(data::interleave(std::vector<uint64_t>{5}).at(far).index == far);
}

BOOST_AUTO_TEST_SUITE_END()
