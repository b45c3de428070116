// Tests the fitting of constants: the method on functions whose least value is known, and stacks on tables whose times
// were computed.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "hardware/calibration.hpp"
#include "hardware/catalogue.hpp"
#include "hardware/least_squares.hpp"
#include "hardware/price.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(calibration)

using namespace troupe;
using namespace troupe::hardware;
using namespace troupe::tests;

namespace {

/// Returns samples of two shapes and several degrees whose times are those of `by`, as long as `slower` says.
std::vector<sample> computed_samples(const stack& by, double slower) {
  std::vector<sample> out;
  for (const double hidden : {2048, 6144})
    for (const double tensor : {1, 2, 8})
      for (const double data : {1, 4, 16})
        for (const double micro_batch : {1, 4}) {
          workload w;
          w.hidden = hidden, w.ffn = 4 * hidden, w.heads = w.kv_heads = 32, w.layers = hidden / 128, w.sequence = 2048;
          w.vocabulary = 51200, w.tensor = tensor, w.data = data, w.micro_batch = micro_batch, w.micro_batches = 8;
          w.recompute = true;
          sample one;
          one.of = quantity::step;
          one.what = w;
          one.measured = slower * price_of(quantity::step, w, by.on, by.find(quantity::step)->values);
          out.push_back(one);
        }
  return out;
}

stack expected_stack(const std::string& name) {
  auto by = check_ok(choose_stacks({name}, ""))->front();
  for (auto& model : by.models)
    for (auto c : std::vector<given_constant>(model.given))
      if (c.is_fitted()) {
        c.value = c.expected;
        model.put(c);
      }
  return by;
}

}  // namespace

BOOST_AUTO_TEST_CASE(least_squares_finds_the_valley_of_rosenbrock) {
  const auto x = least_squares({{-1.2, -5, 5}, {1, -5, 5}}, [](const std::vector<double>& at) {
    return std::vector<double>{10 * (at[1] - at[0] * at[0]), 1 - at[0]};
  });
  BOOST_TEST(std::abs(x[0] - 1) < 1e-5);
  BOOST_TEST(std::abs(x[1] - 1) < 1e-5);
}

BOOST_AUTO_TEST_CASE(least_squares_stays_within_bounds_and_moves_along_them) {
  const auto x = least_squares({{0, -1, 2}, {0, -1, 2}}, [](const std::vector<double>& at) {
    return std::vector<double>{at[0] - 5, at[1] - 1, 0.1 * (at[0] + at[1])};
  });
  BOOST_TEST(x[0] == 2);
  BOOST_TEST(std::abs(x[1] - (1 - 0.01 * 2) / 1.01) < 1e-6);
}

BOOST_AUTO_TEST_CASE(constants_that_made_a_table_are_found_again_from_their_expectations) {
  const auto by = check_ok(choose_stacks({"megatron_deepspeed_a100"}, ""))->front();
  const auto start = expected_stack("megatron_deepspeed_a100");
  const auto samples = computed_samples(by, 1);
  const auto before = price_samples(samples, std::vector<stack>{start});
  double off_before = 0;
  for (size_t i = 0; i < samples.size(); ++i)
    off_before = std::max(off_before, std::abs(before[i].predicted / samples[i].measured - 1));
  const auto all = check_ok(calibrate(start, samples));
  BOOST_TEST_REQUIRE(all->size() == 1U);
  const auto& one = all->front();
  BOOST_TEST(off_before > 0.02);
  BOOST_TEST(one.given.worst < 1.5);
  BOOST_TEST(one.given.mean < 0.5);
  BOOST_TEST(one.left_out_by == "hidden x layers");
  BOOST_TEST(one.left_out.size() == samples.size());
  BOOST_TEST(one.unseen.mean < 5);
  BOOST_TEST(one.model.groups == (std::vector<std::string>{"2048x16", "6144x48"}), boost::test_tools::per_element());
  BOOST_TEST((one.model.fitted_factor >= 1 && one.model.other_factor >= one.model.fitted_factor));
}

BOOST_AUTO_TEST_CASE(a_slower_card_is_learned_and_the_fixed_constants_stay) {
  const auto by = check_ok(choose_stacks({"megatron_deepspeed_a100"}, ""))->front();
  const auto samples = computed_samples(by, 1.1);
  const auto all = check_ok(calibrate(by, samples));
  BOOST_TEST(all->front().given.mean < 3);
  const auto after = calibrated(by, *all, "fitted here");
  const auto &then = by.find(quantity::step)->given, &now = after.find(quantity::step)->given;
  BOOST_TEST_REQUIRE(then.size() == now.size());
  for (size_t i = 0; i < then.size(); ++i) {
    BOOST_TEST((then[i].is_fitted() || then[i].value == now[i].value), then[i].row->name);
    BOOST_TEST((now[i].source == "fitted here") == then[i].is_fitted(), then[i].row->name);
  }
}

BOOST_AUTO_TEST_CASE(the_ranges_of_a_table_are_those_of_its_steps) {
  const auto by = check_ok(choose_stacks({"megatron_deepspeed_a100"}, ""))->front();
  const auto ranges = fitted_ranges_of(computed_samples(by, 1));
  BOOST_TEST_REQUIRE(ranges.size() == 3U);
  BOOST_TEST((ranges[0].size == "hidden" && ranges[0].least == 2048 && ranges[0].most == 6144));
  BOOST_TEST((ranges[1].size == "layers" && ranges[1].least == 16 && ranges[1].most == 48));
  BOOST_TEST((ranges[2].size == "gpus" && ranges[2].least == 1 && ranges[2].most == 128));
  sample product;
  product.of = quantity::product;
  product.what = product_shape{};
  BOOST_TEST(fitted_ranges_of(std::vector<sample>{product}).empty());
}

BOOST_AUTO_TEST_CASE(one_shape_is_left_out_by_degrees_and_one_degree_not_at_all) {
  const auto by = check_ok(choose_stacks({"megatron_deepspeed_a100"}, ""))->front();
  auto samples = computed_samples(by, 1);
  std::erase_if(samples, [](const sample& s) { return std::get<workload>(s.what).hidden > 4000; });
  BOOST_TEST(check_ok(calibrate(by, samples))->front().left_out_by == "degrees");
  std::erase_if(samples, [](const sample& s) { return std::get<workload>(s.what).tensor > 1; });
  const auto one = check_ok(calibrate(by, samples))->front();
  BOOST_TEST(one.left_out.empty());
  BOOST_TEST(one.model.other_factor == one.model.fitted_factor);
}

BOOST_AUTO_TEST_CASE(more_constants_than_a_table_can_tell_apart_are_refused) {
  auto by = check_ok(choose_stacks({"megatron_deepspeed_a100"}, ""))->front();
  const auto samples = computed_samples(by, 1);
  auto& model = by.models.front();
  for (auto c : std::vector<given_constant>(model.given))
    if (c.value > 0) {
      c.expected = c.value;
      c.log_sigma = 1;
      model.put(c);
    }
  check_failed(calibrate(by, samples), error_kind::bad_input, "wanted 1 to 12 constants with an expectation, got 1");
  for (auto c : std::vector<given_constant>(model.given)) {
    c.expected = c.log_sigma = absent;
    model.put(c);
  }
  check_failed(calibrate(by, samples), "got 0");
}

BOOST_AUTO_TEST_SUITE_END()
