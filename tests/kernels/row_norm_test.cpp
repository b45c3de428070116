// Compares SIMD norms over rows with scalar reference implementations bit by bit on every SIMD target, and the
// references in fp64 with the formulas.
#include "kernels/layers/row_norm.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <utility>

#include "samples.hpp"

namespace troupe::kernels::tests {

BOOST_AUTO_TEST_SUITE(row_norm)

namespace {

constexpr uint64_t widths[] = {1, 7, 16, 31, 32, 33, 64, 100, 384};
constexpr uint64_t row_counts[] = {1, 3, 64, 65};

/// All results of layer norm and RMS norm and of their backward passes.
template <class Wide>
struct outcome {
  std::vector<std::byte> y, dx, rms_y, rms_dx;
  std::vector<Wide> mean, rstd, dweight, dbias, rms_rstd, rms_dweight;
  bool operator==(const outcome&) const = default;
};

struct sample {
  std::vector<std::byte> x, weight, bias, dy, past;
  norm_input in;
  norm_gradient gradient;

  sample(core::dtype type, uint64_t rows, uint64_t width, bool with_past) {
    x = normal_bytes(type, rows * width, 1);
    weight = normal_bytes(type, width, 2);
    bias = normal_bytes(type, width, 3);
    dy = normal_bytes(type, rows * width, 4);
    past = normal_bytes(type, rows * width, 5);
    in = {.x = x.data(), .weight = weight.data(), .type = type, .rows = rows, .width = width};
    gradient = {.dy = dy.data(), .past = with_past ? past.data() : nullptr};
  }
  static std::vector<std::byte> normal_bytes(core::dtype type, uint64_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0.5F, 2);
    std::vector<float> values(count);
    for (auto& v : values) v = normal(random);
    std::vector<std::byte> out(count * core::size_of(type));
    cast_reference(reinterpret_cast<const std::byte*>(values.data()), core::dtype::f32, out.data(), type, count);
    return out;
  }
};

template <class Wide, bool Twin>
outcome<Wide> run(const sample& s) {
  const norm_input& in = s.in;
  outcome<Wide> o;
  for (auto* b : {&o.y, &o.dx, &o.rms_y, &o.rms_dx}) b->resize(s.x.size());
  for (auto* v : {&o.mean, &o.rstd, &o.rms_rstd}) v->resize(in.rows);
  for (auto* v : {&o.dweight, &o.dbias, &o.rms_dweight}) v->resize(in.width);
  constexpr double epsilon = 1e-5;
  if constexpr (Twin) {
    layer_norm_reference(in, s.bias.data(), epsilon, o.y.data(), o.mean.data(), o.rstd.data());
    layer_norm_backward_reference(in, s.gradient, o.mean.data(), o.rstd.data(), o.dx.data(), o.dweight.data(),
                                  o.dbias.data());
    rms_norm_reference(in, epsilon, o.rms_y.data(), o.rms_rstd.data());
    rms_norm_backward_reference(in, s.gradient, o.rms_rstd.data(), o.rms_dx.data(), o.rms_dweight.data());
  } else {
    layer_norm(in, s.bias.data(), epsilon, o.y.data(), o.mean.data(), o.rstd.data());
    layer_norm_backward(in, s.gradient, o.mean.data(), o.rstd.data(), o.dx.data(), o.dweight.data(), o.dbias.data());
    rms_norm(in, epsilon, o.rms_y.data(), o.rms_rstd.data());
    rms_norm_backward(in, s.gradient, o.rms_rstd.data(), o.rms_dx.data(), o.rms_dweight.data());
  }
  return o;
}

std::vector<double> numbers(const std::vector<std::byte>& bytes) {
  std::vector<double> out(bytes.size() / sizeof(double));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(vectors_give_the_bits_of_the_scalar_twins) {
  for (const core::dtype type : fp32_dtypes)
    for (const uint64_t width : widths)
      for (const uint64_t rows : row_counts)
        for (const auto& [with_past, shift] : {std::pair{false, 0.0F}, std::pair{true, 0.0F}, std::pair{true, 1.0F}}) {
          sample s(type, rows, width, with_past);
          s.in.shift = shift;
          const auto wanted = run<float, true>(s);
          for_each_simd_target([&] {
            BOOST_TEST((run<float, false>(s) == wanted), rows << " rows of " << width << " " << core::name_of(type));
          });
        }
}

BOOST_AUTO_TEST_CASE(a_row_has_the_same_bits_whatever_rows_are_beside_it) {
  const sample many(core::dtype::bf16, 70, 100, true);
  sample one = many;
  const auto together = run<float, false>(many);
  one.in.rows = 1;
  for (uint64_t r = 0; r < many.in.rows; ++r) {
    const uint64_t at = r * 100 * 2;
    one.x.assign(many.x.begin() + static_cast<long>(at), many.x.begin() + static_cast<long>(at + 200));
    one.in.x = one.x.data();
    one.gradient.dy = many.gradient.dy + at;
    one.gradient.past = many.gradient.past + at;
    const auto alone = run<float, false>(one);
    BOOST_TEST(std::memcmp(alone.y.data(), together.y.data() + at, 200) == 0);
    BOOST_TEST(std::memcmp(alone.dx.data(), together.dx.data() + at, 200) == 0);
    BOOST_TEST(std::memcmp(alone.rms_dx.data(), together.rms_dx.data() + at, 200) == 0);
  }
}

BOOST_AUTO_TEST_CASE(fp64_gives_the_formulas_and_the_slopes_of_their_outputs) {
  const uint64_t rows = 3, width = 37;
  sample s(core::dtype::f64, rows, width, true);
  const auto o = run<double, true>(s);
  const auto dy = numbers(s.dy), past = numbers(s.past), dx = numbers(o.dx), rms_dx = numbers(o.rms_dx);
  const auto loss = [&](bool rms) {
    const auto moved = run<double, true>(s);
    const auto y = numbers(rms ? moved.rms_y : moved.y);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  const auto slope_at = [&](std::vector<std::byte>& bytes, uint64_t i, bool rms) {
    auto* element = reinterpret_cast<double*>(bytes.data()) + i;
    const double start = *element, h = 1e-5;
    *element = start + h;
    const double above = loss(rms);
    *element = start - h;
    const double below = loss(rms);
    *element = start;
    return (above - below) / (2 * h);
  };
  for (uint64_t i = 0; i < rows * width; ++i) {
    BOOST_TEST(std::abs(dx[i] - past[i] - slope_at(s.x, i, false)) < 1e-6);
    BOOST_TEST(std::abs(rms_dx[i] - past[i] - slope_at(s.x, i, true)) < 1e-6);
  }
  for (uint64_t i = 0; i < width; ++i) {
    BOOST_TEST(std::abs(o.dweight[i] - slope_at(s.weight, i, false)) < 1e-6);
    BOOST_TEST(std::abs(o.dbias[i] - slope_at(s.bias, i, false)) < 1e-6);
    BOOST_TEST(std::abs(o.rms_dweight[i] - slope_at(s.weight, i, true)) < 1e-6);
  }
  const auto x = numbers(s.x);
  double mean = 0, square = 0;
  for (uint64_t i = 0; i < width; ++i) mean += x[i] / static_cast<double>(width);
  for (uint64_t i = 0; i < width; ++i) square += (x[i] - mean) * (x[i] - mean) / static_cast<double>(width);
  BOOST_TEST(std::abs(numbers(o.y)[0] -
                      ((x[0] - mean) / std::sqrt(square + 1e-5) * numbers(s.weight)[0] + numbers(s.bias)[0])) < 1e-12);
}

BOOST_AUTO_TEST_CASE(a_shift_is_added_to_each_weight_before_it_multiplies) {
  sample plain(core::dtype::f64, 5, 37, true);
  sample shifted = plain;
  auto* const weights = reinterpret_cast<double*>(plain.weight.data());
  for (uint64_t i = 0; i < 37; ++i) weights[i] += 1;
  shifted.in.weight = shifted.weight.data();
  shifted.in.shift = 1;
  const auto wanted = run<double, true>(plain), got = run<double, true>(shifted);
  BOOST_TEST((got == wanted));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::kernels::tests
