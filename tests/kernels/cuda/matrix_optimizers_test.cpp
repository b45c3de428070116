// Tests the optimizers with two phases on the device: LAMB, which needs norms between them, and Muon, which needs whole
// matrices.
#include "core/math.hpp"
#include "tests/kernels/cuda/optimizer_state.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(matrix_optimizers)

namespace {

void compare(const lamb_options& o, const piece_shape& s) {
  BOOST_TEST_CONTEXT(text_of(s)) {
    parameter wanted(s);
    device_parameter got(wanted, s);
    std::vector<double> weight_sums(core::div_up(s.count, core::partition_grain), -1.0), update_sums = weight_sums;
    const uint64_t blocks = weight_sums.size();
    device_array<double> weights(weight_sums), updates(update_sums);
    kernels::prepare_unchecked(o, step_of(s), wanted.piece(s), weight_sums, update_sums);
    require(
        cuda::prepare(o, step_of(s), got.piece(s), {weights.data(), blocks}, {updates.data(), blocks}, test_stream()));
    require_same(weights.back(), weight_sums);
    require_same(updates.back(), update_sums);
    require_same_parameter(got, wanted, s);
    for (const double ratio : {1.0, 0.37, 10.0}) {
      kernels::apply_unchecked(o, step_of(s), wanted.piece(s), ratio);
      require(cuda::apply(o, step_of(s), got.piece(s), ratio, test_stream()));
      require_same_parameter(got, wanted, s);
    }
  }
}

void compare(const muon_options& o, const piece_shape& s) {
  BOOST_TEST_CONTEXT(text_of(s)) {
    parameter wanted(s);
    device_parameter got(wanted, s);
    std::vector<float> direction(s.count, -1.0F);
    device_array<float> device_direction(direction, 6 * s.shift);
    kernels::prepare_unchecked(o, step_of(s), wanted.piece(s), direction.data());
    require(cuda::prepare(o, step_of(s), got.piece(s), device_direction.data(), test_stream()));
    require_same(device_direction.back(), direction);
    require_same_parameter(got, wanted, s);
    kernels::apply_unchecked(o, step_of(s), wanted.piece(s), direction.data());
    require(cuda::apply(o, step_of(s), got.piece(s), device_direction.data(), test_stream()));
    require_same_parameter(got, wanted, s);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(both_halves_of_lamb_with_every_option_have_the_cpus_bits) {
  for (const double decay : {0.0, 0.1})
    for (const bool corrected : {false, true})
      for_each_shape(
          [&](const piece_shape& s) { compare(lamb_options{.weight_decay = decay, .bias_correction = corrected}, s); });
}

BOOST_AUTO_TEST_CASE(both_halves_of_muon_with_every_option_have_the_cpus_bits) {
  for (const double decay : {0.0, 0.1})
    for (const bool nesterov : {false, true})
      for_each_shape([&](piece_shape s) {
        s.has_second = false;
        compare(muon_options{.weight_decay = decay, .nesterov = nesterov}, s);
      });
}

BOOST_AUTO_TEST_CASE(a_parameter_split_at_blocks_has_the_bits_and_sums_of_the_whole) {
  const piece_shape s{.count = 5 * core::partition_grain + 13, .gradient = core::dtype::f32};
  const lamb_options o{.weight_decay = 0.1};
  parameter wanted(s);
  std::vector<double> weight_sums(6), update_sums(6);
  const parameter start(s);
  kernels::prepare_unchecked(o, step_of(s), wanted.piece(s), weight_sums, update_sums);
  for (uint64_t block = 0; block <= 5; ++block) {
    device_parameter parts(start, s);
    device_array<double> weights(std::vector<double>(6, -1.0)), updates(std::vector<double>(6, -1.0));
    const uint64_t cut = block * core::partition_grain;
    auto head = parts.piece(s), tail = head;
    head.count = cut;
    tail.count -= cut;
    tail.master += cut;
    for (auto& moment : tail.moments) moment += cut;
    tail.gradient += cut * sizeof(float);
    tail.copy += cut * core::size_of(s.copy);
    require(cuda::prepare(o, step_of(s), tail, {weights.data() + block, 6 - block}, {updates.data() + block, 6 - block},
                          test_stream()));
    require(cuda::prepare(o, step_of(s), head, {weights.data(), block}, {updates.data(), block}, test_stream()));
    require_same(weights.back(), weight_sums);
    require_same(updates.back(), update_sums);
    require_same_parameter(parts, wanted, s);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
