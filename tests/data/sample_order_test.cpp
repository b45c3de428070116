// Tests that the shuffle is a bijection, depends on seed and epoch and is evenly distributed, and that a text that is
// too short is refused.
#include "data/sample_order.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(sample_order)

using namespace troupe::data;

namespace {

std::vector<uint64_t> epoch_of(const sample_order& order, uint64_t epoch) {
  std::vector<uint64_t> out(order.samples());
  for (uint64_t i = 0; i < out.size(); ++i) out[i] = order.sample_at(epoch * out.size() + i);
  return out;
}

bool is_shuffle(std::vector<uint64_t> v) {
  std::sort(v.begin(), v.end());
  for (uint64_t i = 0; i < v.size(); ++i)
    if (v[i] != i) return false;
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_size_is_shuffled_without_loss_or_repeat) {
  std::vector<uint64_t> sizes(300);
  std::iota(sizes.begin(), sizes.end(), uint64_t{1});
  sizes.insert(sizes.end(), {1023, 1024, 1025, 4095, 4096, 4097, 65'535, 65'536, 65'537, 100'003});
  for (const uint64_t n : sizes) {
    const permutation shuffle(n, 42 + n);
    std::vector<uint64_t> seen(n);
    for (uint64_t i = 0; i < n; ++i) seen[i] = shuffle(i);
    BOOST_TEST(is_shuffle(seen), "size " << n);
  }
}

BOOST_AUTO_TEST_CASE(the_largest_sizes_stay_inside) {
  for (const uint64_t n : {uint64_t{1} << 62, (uint64_t{1} << 62) + 1, std::numeric_limits<uint64_t>::max()}) {
    BOOST_TEST_INFO_SCOPE("n " << n);
    const permutation shuffle(n, 7);
    BOOST_TEST(shuffle(0) < n);
    BOOST_TEST(shuffle(n - 1) < n);
    BOOST_TEST(shuffle(0) != shuffle(n - 1));
  }
}

BOOST_AUTO_TEST_CASE(an_order_without_a_shuffle_is_that_of_the_text_in_every_epoch) {
  const troupe::data::sample_order order({100, 100 + 50 * 8 + 1}, 8, 1, sample_shuffle::none);
  std::vector<uint64_t> wanted(50);
  std::iota(wanted.begin(), wanted.end(), uint64_t{0});
  for (const uint64_t epoch : {0U, 1U, 7U}) BOOST_TEST((epoch_of(order, epoch) == wanted));
  BOOST_TEST(order.first_token_at(51) == 108U);
}

BOOST_AUTO_TEST_CASE(seed_and_epoch_each_change_the_order) {
  const token_range text{100, 100 + 1000 * 8 + 1};
  const troupe::data::sample_order one(text, 8, 1);
  const troupe::data::sample_order two(text, 8, 2);
  BOOST_TEST(one.samples() == 1000U);
  BOOST_TEST(is_shuffle(epoch_of(one, 0)));
  BOOST_TEST(is_shuffle(epoch_of(one, 1)));
  BOOST_TEST((epoch_of(one, 0) != epoch_of(one, 1)));
  BOOST_TEST((epoch_of(one, 0) != epoch_of(two, 0)));
  BOOST_TEST((epoch_of(one, 0) == epoch_of(troupe::data::sample_order(text, 8, 1), 0)));
  BOOST_TEST(one.epoch_of(999) == 0U);
  BOOST_TEST(one.epoch_of(1000) == 1U);
}

// The test counts 10 positions x 10 samples over 20,000 seeds, so each cell expects 2,000. With 81 degrees of freedom,
// chi-squared is below 140 with probability 0.9999, and the seeds are fixed.
BOOST_AUTO_TEST_CASE(every_sample_comes_first_as_often_as_any_other) {
  constexpr uint64_t n = 10;
  std::vector<double> hits(n * n, 0);
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    const troupe::data::sample_order order({0, n + 1}, 1, seed);
    for (uint64_t i = 0; i < n; ++i) hits[i * n + order.sample_at(i)] += 1;
  }
  double chi_squared = 0;
  for (const double h : hits) chi_squared += (h - 2000) * (h - 2000) / 2000;
  BOOST_TEST(chi_squared < 140);
}

BOOST_AUTO_TEST_CASE(neighbours_in_the_order_are_far_apart_in_the_text) {
  const troupe::data::sample_order order({0, 100'001}, 1, 3);
  uint64_t close = 0;
  for (uint64_t i = 0; i + 1 < order.samples(); ++i) {
    const auto a = static_cast<int64_t>(order.sample_at(i));
    const auto b = static_cast<int64_t>(order.sample_at(i + 1));
    close += std::abs(a - b) < 1000 ? 1 : 0;
  }
  // Two random positions among 100,000 are within 1,000 of each other with probability 0.02.
  BOOST_TEST(close > 1'600U);
  BOOST_TEST(close < 2'400U);
}

BOOST_AUTO_TEST_CASE(windows_overlap_by_one_token_and_use_all_that_fits) {
  BOOST_TEST((token_range{0, 33}).samples(8) == 4U);
  BOOST_TEST((token_range{0, 32}).samples(8) == 3U);
  BOOST_TEST((token_range{0, 9}).samples(8) == 1U);
  BOOST_TEST((token_range{0, 8}).samples(8) == 0U);
  BOOST_TEST((token_range{5, 5}).samples(8) == 0U);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_text_is_held_out) {
  const auto split = split_tokens(10'000, 0.02, 128);
  BOOST_REQUIRE(split);
  BOOST_TEST(split->train.begin == 0U);
  BOOST_TEST(split->train.end == 9'800U);
  BOOST_TEST(split->validation.begin == 9'800U);
  BOOST_TEST(split->validation.end == 10'000U);
  const auto whole = split_tokens(129, 0, 128);
  BOOST_REQUIRE(whole);
  BOOST_TEST(whole->train.size() == 129U);
  BOOST_TEST(whole->validation.size() == 0U);
}

BOOST_AUTO_TEST_CASE(text_shorter_than_one_sequence_is_refused) {
  const auto refused = [](uint64_t tokens, double fraction, uint64_t sequence, const std::string& words) {
    const auto split = split_tokens(tokens, fraction, sequence);
    BOOST_REQUIRE(!split);
    BOOST_TEST(split.error().text.find(words) != std::string::npos, split.error().text);
  };
  refused(128, 0, 128, "training text has 128 tokens, shorter than one sequence");
  refused(1000, 0.9, 128, "training text has 100 tokens");
  refused(1000, 0.1, 128, "validation text has 100 tokens");
  refused(1000, 1.0, 128, "fraction");
  refused(1000, -0.1, 128, "fraction");
  refused(1000, std::numeric_limits<double>::quiet_NaN(), 128, "fraction");
  refused(1000, 0.1, 0, "at least 1 token");
}

BOOST_AUTO_TEST_SUITE_END()
