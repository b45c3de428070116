// Tests averages of weights: the SIMD code has the bits of the scalar code, updates change the average at the times
// that the options say, and an undo restores it.
#include "kernels/optimizer/average.hpp"

#include "kernels/optimizer/undo.hpp"
#include "tests/kernels/optimizer_runs.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(average)

BOOST_AUTO_TEST_CASE(every_target_has_the_bits_of_the_scalar_code) {
  for_each_simd_target([] {
    for (const uint64_t count : edge_counts())
      for (const double rate : {1.0, 0.001, 0.3}) {
        const auto weights = awkward_floats(count, 1);
        auto got = awkward_floats(count, 2), wanted = got;
        add_to_average(got.data(), weights.data(), count, rate);
        add_to_average_reference(wanted.data(), weights.data(), count, rate);
        BOOST_TEST(first_difference(got, wanted) == count);
        if (rate == 1) BOOST_TEST(first_difference(got, weights) == count);
      }
  });
}

BOOST_AUTO_TEST_CASE(an_average_of_equal_weights_is_these_weights) {
  const std::vector<double> weights(9, 0.1);
  std::vector<double> got(9, 5.0);
  for (int i = 0; i < 200; ++i) add_to_average(got.data(), weights.data(), 9, 0.5);
  for (const double x : got) BOOST_TEST(std::abs(x - 0.1) < 1e-15);
}

BOOST_AUTO_TEST_CASE(an_update_changes_the_average_when_the_options_say_so) {
  const core::average_options plain{.decay = 0.75}, rare{.decay = 0.75, .every = 3, .start = 2};
  BOOST_TEST(average_rate(plain, 1).value() == 0.25);
  BOOST_TEST(average_rate(plain, 1000).value() == 0.25);
  BOOST_TEST(average_rate(rare, 1).value() == 1);
  BOOST_TEST(average_rate(rare, 2).value() == 1);
  BOOST_TEST(!average_rate(rare, 3));
  BOOST_TEST(!average_rate(rare, 4));
  BOOST_TEST(average_rate(rare, 5).value() == 0.25);
  BOOST_TEST(!average_rate(rare, 6));
  const core::average_options warm{.decay = 0.5, .every = 2, .start = 1, .warmup = true};
  BOOST_TEST(average_rate(warm, 3).value() == 1 - 2.0 / 11);
  BOOST_TEST(average_rate(warm, 5).value() == 1 - 3.0 / 12);
  BOOST_TEST(average_rate(warm, 1001).value() == 0.5);
}

BOOST_AUTO_TEST_CASE(an_undo_restores_the_average) {
  const uint64_t count = 40'000;
  optimizer_state<float> state;
  state.master = awkward_floats(count, 1);
  state.moments[0] = state.moments[1] = std::vector<float>(count, 0.5F);
  const auto gradient = awkward_bytes(core::dtype::f32, count, 3);
  const auto before = awkward_floats(count, 2);
  auto now = before;
  auto piece = state.piece(gradient.data(), core::dtype::f32, 0, count);
  const uint64_t without = undo_bytes(piece);
  piece.average = now.data();
  BOOST_TEST(undo_bytes(piece) == without + count * sizeof(float));
  std::vector<std::byte> kept(undo_bytes(piece));
  update_keeping(adamw_options{}, {.step = 1, .lr = 0.1, .gradient_scale = 1}, piece, kept.data());
  add_to_average(piece.average, piece.master, count, 0.5);
  BOOST_TEST(first_difference(now, before) < count);
  take_back(piece, kept.data());
  BOOST_TEST(first_difference(now, before) == count);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
