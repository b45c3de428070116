#include "plan/schedule/stage_cut.hpp"
#include "tests/check_ok.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <random>

BOOST_AUTO_TEST_SUITE(stage_cut)

using namespace troupe::plan;
using troupe::tests::check_ok;

namespace {

bool same(const stage_offsets& got, const stage_offsets& wanted) { return got == wanted; }

std::vector<double> layers(std::initializer_list<double> before, size_t count, double each,
                           std::initializer_list<double> behind) {
  std::vector<double> out(before);
  out.insert(out.end(), count, each);
  out.insert(out.end(), behind);
  return out;
}

std::string why(const troupe::core::result<stage_offsets>& r) { return r ? "" : r.error().text; }

double slowest(const stage_offsets& o, const std::vector<unit_cost>& units, const stage_limits& limits) {
  double out = 0;
  const size_t stages = o.size() - 1;
  for (size_t s = 0; s < stages; ++s) {
    double x = 0;
    uint64_t bytes = 0;
    for (uint32_t u = o[s]; u < o[s + 1]; ++u) {
      x += units[u].step_s;
      bytes += units[u].state_bytes + units[u].activation_bytes * (limits.in_flight.empty() ? 1 : limits.in_flight[s]);
    }
    if (bytes > limits.memory_bytes) return 1e300;
    out = std::max(out, x);
  }
  return out;
}

}  // namespace

// DeepSpeed's partition of uniform units must result in the same offsets.
BOOST_AUTO_TEST_CASE(even_cuts_are_deepspeeds) {
  BOOST_TEST(same(cut_evenly(10, 4), {0, 3, 6, 8, 10}));
  BOOST_TEST(same(cut_evenly(7, 3), {0, 3, 5, 7}));
  BOOST_TEST(same(cut_evenly(2, 4), {0, 1, 2, 2, 2}));
}

BOOST_AUTO_TEST_CASE(cuts_by_weight_are_deepspeeds) {
  BOOST_TEST(same(cut_by_weight(std::vector<double>{0, 1, 2, 3, 3, 3}, 4), {0, 3, 4, 5, 6}));
  BOOST_TEST(same(cut_by_weight(std::vector<double>{0, 1.1, 1.9, 3, 30}, 2), {0, 4, 5}));
  BOOST_TEST(same(cut_by_weight(std::vector<double>{0, 1.1, 30, 3}, 3), {0, 2, 3, 4}));
  BOOST_TEST(same(cut_by_weight(std::vector<double>(10, 1), 4), {0, 3, 6, 8, 10}));
  BOOST_TEST(same(cut_by_weight(layers({52559872}, 24, 12596224, {0, 52559872}), 8), {0, 1, 5, 9, 13, 17, 21, 26, 27}));
  BOOST_TEST(same(cut_by_weight(layers({0}, 24, 1, {0, 0, 0}), 5), {0, 6, 11, 16, 21, 28}));
  BOOST_TEST(same(cut_by_weight(std::vector<double>(8, 0), 4), {0, 5, 6, 7, 8}));
  BOOST_TEST(same(cut_by_weight(std::vector<double>{5, 1}, 4), {0, 1, 2, 2, 2}));
}

BOOST_AUTO_TEST_CASE(written_offsets_are_checked) {
  BOOST_TEST(same(*check_offsets({0, 1, 4}, 4, 2), {0, 1, 4}));
  BOOST_TEST(why(check_offsets({0, 4}, 4, 2)) == "stage offsets: 2 stages require 3 offsets, got 2");
  BOOST_TEST(why(check_offsets({0, 1, 5}, 4, 2)) ==
             "stage offsets: wanted from 0 to 4, the number of units, got from 0 to 5");
  BOOST_TEST(why(check_offsets({1, 2, 4}, 4, 2)) ==
             "stage offsets: wanted from 0 to 4, the number of units, got from 1 to 4");
  BOOST_TEST(why(check_offsets({0, 2, 2, 4}, 4, 3)) ==
             "stage offsets: stage 1 has no unit: it begins at 2 and ends at 2");
  BOOST_TEST(why(check_offsets({0, 3, 2, 4}, 4, 3)) ==
             "stage offsets: stage 1 has no unit: it begins at 3 and ends at 2");
  BOOST_TEST(why(check_offsets({}, 4, 0)) == "stage offsets: 0 stages require 1 offsets, got 0");
}

BOOST_AUTO_TEST_CASE(the_best_cut_balances_the_stages_and_names_the_slowest) {
  std::vector<unit_cost> units(8, unit_cost{1, 0, 0});
  const auto even = check_ok(cut_best(units, 4, {}));
  BOOST_TEST(same(even->offsets, {0, 2, 4, 6, 8}));
  BOOST_TEST(even->slowest_s == 2.0);
  units.back().step_s = 3;
  const auto heavy_end = cut_best(units, 3, {});
  BOOST_TEST(heavy_end->slowest_s == 4.0);
  BOOST_TEST(same(heavy_end->offsets, {0, 3, 6, 8}));
  BOOST_TEST(heavy_end->slowest == 2U);
}

BOOST_AUTO_TEST_CASE(the_best_cut_fits_the_memory_or_says_that_none_does) {
  const std::vector<unit_cost> units(6, unit_cost{1, 10, 5});
  const auto cut = check_ok(cut_best(units, 2, {{4, 1}, 70}));
  BOOST_TEST(same(cut->offsets, {0, 2, 6}));  // a unit needs 30 bytes on the first stage and 15 on the last
  BOOST_TEST(cut->slowest == 1U);
  const auto none = cut_best(units, 2, {{4, 4}, 70});
  BOOST_TEST((none.error().kind == troupe::core::error_kind::no_space));
  BOOST_TEST(none.error().text == "no cut of 6 units into 2 stages fits: each may have 70 B");
  BOOST_TEST(cut_best(units, 7, {}).error().text == "6 units make at most 6 stages, wanted 7");
}

BOOST_AUTO_TEST_CASE(no_cut_is_better_than_the_best) {
  for (uint64_t seed = 0; seed < 200; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto n = static_cast<uint32_t>(1 + random() % 8), p = static_cast<uint32_t>(1 + random() % n);
      std::vector<unit_cost> units(n);
      for (auto& u : units) u = {static_cast<double>(random() % 20), random() % 10, random() % 10};
      stage_limits limits;
      for (uint32_t s = 0; s < p; ++s) limits.in_flight.push_back(p - s);
      if (random() % 2 == 0) limits.memory_bytes = 20 + random() % 60;
      double least = 1e300;
      stage_offsets o(p + 1, 0);
      o[p] = n;
      const std::function<void(uint32_t)> all = [&](uint32_t s) {
        if (s == p) return void(least = std::min(least, slowest(o, units, limits)));
        for (o[s] = o[s - 1] + 1; o[s] + (p - s) <= n; ++o[s]) all(s + 1);
      };
      all(1);
      const auto best = cut_best(units, p, limits);
      BOOST_TEST(best.has_value() == (least < 1e300));
      if (!best) continue;
      BOOST_TEST(best->slowest_s == least);
      BOOST_TEST(slowest(best->offsets, units, limits) == least);
    }
}

BOOST_AUTO_TEST_CASE(activations_have_a_limit_of_their_own) {
  // The cut after the third unit is the fastest, but the first stage has two micro-batches in flight, so its limit
  // allows only two units.
  const std::vector<unit_cost> units(6, {1, 1000, 10});
  stage_limits limits;
  limits.in_flight = {2, 1};
  limits.activation_bytes = 40;
  const auto cut = check_ok(cut_best(units, 2, limits));
  BOOST_TEST(same(cut->offsets, {0, 2, 6}));
  limits.activation_bytes = 30;
  BOOST_TEST(cut_best(units, 2, limits).error().text == "no cut of 6 units into 2 stages fits: each may have 30 B");
}

BOOST_AUTO_TEST_SUITE_END()
