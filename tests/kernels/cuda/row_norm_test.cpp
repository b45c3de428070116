// Tests layer norm and RMS norm of rows on the device: results are within a bound of fp64, sums over rows have the
// CPU's bits, and the bits of a row do not depend on data outside of the row.
#include "kernels/layers/row_norm.hpp"

#include "kernels/cuda/kernels.hpp"
#include "tests/check_ok.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"
#include "tests/kernels/cuda/rounding.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(row_norm)

namespace {

constexpr double epsilon = 1e-5;

struct shape {
  uint64_t rows, width;
};
/// Shapes around the sizes of vector loads, warps, the rows of a block and the runs of a sum; shapes with one row or
/// one column; and widths at which each thread has one, two or more vector loads in fp32 and in 16 bits.
constexpr shape shapes[] = {{1, 1},   {3, 1},   {5, 7},    {1, 8},    {66, 24},  {9, 33},   {130, 96}, {7, 255},
                            {4, 256}, {2, 768}, {3, 1001}, {5, 2048}, {2, 3000}, {2, 4104}, {1, 6000}, {2, 8200}};

struct sample {
  core::dtype type;
  shape size;
  std::vector<std::byte> x, weight, bias, dy, past;

  sample(core::dtype t, shape s, float centre = 0.5F) : type(t), size(s) {
    const uint64_t all = s.rows * s.width;
    x = numbers(all, 1, centre);
    weight = numbers(s.width, 2);
    bias = numbers(s.width, 3);
    dy = numbers(all, 4);
    past = numbers(all, 5);
  }
  /// Returns row `r` as a sample of one row.
  [[nodiscard]] sample row(uint64_t r) const {
    sample out = *this;
    out.size.rows = 1;
    const auto bytes = static_cast<std::ptrdiff_t>(size.width * core::size_of(type));
    for (auto [to, from] : {std::pair{&out.x, &x}, {&out.dy, &dy}, {&out.past, &past}})
      to->assign(from->begin() + static_cast<std::ptrdiff_t>(r) * bytes,
                 from->begin() + static_cast<std::ptrdiff_t>(r + 1) * bytes);
    return out;
  }

 private:
  [[nodiscard]] std::vector<std::byte> numbers(uint64_t count, uint64_t seed, float centre = 0) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(centre, 2);
    std::vector<float> out(count);
    for (auto& v : out) v = normal(random);
    return stored_as(type, out);
  }
};

/// The array that receives the result: `own` is a separate array, the others are inputs that it overwrites.
enum class place { own, x, dy, past };

struct outcome {
  std::vector<std::byte> y, dx;
  std::vector<float> mean, rstd, dweight, dbias;
  bool operator==(const outcome&) const = default;
};

/// Runs forward and backward with arrays that begin `shift` elements after an aligned address. `to` selects the array
/// that receives dx.
outcome run(bool centred, const sample& s, bool with_past, uint64_t shift = 0, place to = place::own) {
  const uint64_t bytes = shift * core::size_of(s.type);
  const uint64_t rows = s.size.rows, width = s.size.width;
  device_array<std::byte> x(s.x, bytes), weight(s.weight, bytes), bias(s.bias, bytes), dy(s.dy, bytes),
      past(s.past, bytes), y(std::vector<std::byte>(s.x.size()), bytes), dx(std::vector<std::byte>(s.x.size()), bytes);
  const std::vector<float> of_rows(rows), of_columns(width);
  device_array<float> mean(of_rows), rstd(of_rows), dweight(of_columns), dbias(of_columns);
  const norm_input in{.x = x.data(), .weight = weight.data(), .type = s.type, .rows = rows, .width = width};
  const norm_rows kept{.mean = centred ? reinterpret_cast<std::byte*>(mean.data()) : nullptr,
                       .rstd = reinterpret_cast<std::byte*>(rstd.data())};
  const norm_gradient gradient{.dy = dy.data(), .past = with_past ? past.data() : nullptr};
  auto& backward_to = to == place::own ? dx : to == place::x ? x : to == place::dy ? dy : past;
  auto* const dw = reinterpret_cast<std::byte*>(dweight.data());
  auto* const db = reinterpret_cast<std::byte*>(dbias.data());
  outcome out;
  if (centred) {
    require(cuda::layer_norm(in, bias.data(), epsilon, y.data(), kept, test_stream()));
    require(cuda::layer_norm_backward(in, gradient, kept, backward_to.data(), dw, db, test_stream()));
    out.mean = mean.back();
    out.dbias = dbias.back();
  } else {
    require(cuda::rms_norm(in, epsilon, y.data(), kept, test_stream()));
    require(cuda::rms_norm_backward(in, gradient, kept, backward_to.data(), dw, test_stream()));
  }
  out.y = y.back();
  out.dx = backward_to.back();
  out.rstd = rstd.back();
  out.dweight = dweight.back();
  return out;
}

/// Relative error bound: up to 27 roundings in fp32 in a sum and in the numbers computed from it.
constexpr double bound = 0x1p-19;

void require_near_fp64(bool centred, const sample& s, bool with_past, const outcome& o) {
  const uint64_t rows = s.size.rows, width = s.size.width;
  const auto x = wide(s.type, s.x), w = wide(s.type, s.weight), b = wide(s.type, s.bias), dy = wide(s.type, s.dy),
             past = wide(s.type, s.past), y = wide(s.type, o.y), dx = wide(s.type, o.dx);
  const norm_input in{.x = bytes_of(x), .weight = bytes_of(w), .type = core::dtype::f64, .rows = rows, .width = width};
  const norm_gradient gradient{.dy = bytes_of(dy), .past = with_past ? bytes_of(past) : nullptr};
  std::vector<double> exact_y(y.size()), exact_dx(y.size()), mean(rows), rstd(rows), dweight(width), dbias(width);
  if (centred)
    layer_norm_reference(in, bytes_of(b), epsilon, bytes_of(exact_y), mean.data(), rstd.data());
  else
    rms_norm_reference(in, epsilon, bytes_of(exact_y), rstd.data());
  for (uint64_t r = 0; r < rows; ++r) {
    double size = 0;
    for (uint64_t i = 0; i < width; ++i) size += std::abs(x[r * width + i]) / static_cast<double>(width);
    // A mean far from zero has an error that is large compared with the row's deviations, and the variance's error is
    // its square.
    const double off = centred ? bound * size : 0, rstd_bound = bound + off * rstd[r] * off * rstd[r];
    if (centred) BOOST_REQUIRE_SMALL(o.mean[r] - mean[r], off);
    BOOST_REQUIRE_SMALL(o.rstd[r] - rstd[r], rstd_bound * rstd[r]);
    for (uint64_t i = r * width; i < (r + 1) * width; ++i) {
      const double scale = std::abs(w[i % width]) * rstd[r];
      const double error =
          scale * (off + std::abs(x[i] - mean[r]) * rstd_bound) + (centred ? bound * std::abs(b[i % width]) : 0);
      BOOST_REQUIRE_SMALL(y[i] - exact_y[i], error + half_unit(s.type, exact_y[i]));
    }
  }
  // Backward receives the means and reciprocal deviations that the device's forward stored.
  const std::vector<double> kept_mean(o.mean.begin(), o.mean.end()), kept_rstd(o.rstd.begin(), o.rstd.end());
  if (centred)
    layer_norm_backward_reference(in, gradient, kept_mean.data(), kept_rstd.data(), bytes_of(exact_dx), dweight.data(),
                                  dbias.data());
  else
    rms_norm_backward_reference(in, gradient, kept_rstd.data(), bytes_of(exact_dx), dweight.data());
  for (uint64_t r = 0; r < rows; ++r) {
    double level = 0, slope = 0;
    const auto h = [&](uint64_t i) { return std::abs(dy[r * width + i] * w[i]); };
    const auto normed = [&](uint64_t i) {
      return std::abs(x[r * width + i] - (centred ? kept_mean[r] : 0)) * kept_rstd[r];
    };
    for (uint64_t i = 0; i < width; ++i) {
      level += h(i) / static_cast<double>(width);
      slope += h(i) * normed(i) / static_cast<double>(width);
    }
    for (uint64_t i = 0; i < width; ++i) {
      const double size =
          kept_rstd[r] * (h(i) + level + normed(i) * slope) + (with_past ? std::abs(past[r * width + i]) : 0);
      BOOST_REQUIRE_SMALL(dx[r * width + i] - exact_dx[r * width + i],
                          bound * size + half_unit(s.type, exact_dx[r * width + i]));
    }
  }
}

/// Requires that sums over rows have the CPU's bits if both use the device's mean and rstd.
void require_cpus_sums(bool centred, const sample& s, bool with_past, const outcome& o) {
  const norm_input in{
      .x = s.x.data(), .weight = s.weight.data(), .type = s.type, .rows = s.size.rows, .width = s.size.width};
  const norm_gradient gradient{.dy = s.dy.data(), .past = with_past ? s.past.data() : nullptr};
  std::vector<std::byte> dx(s.x.size());
  std::vector<float> dweight(s.size.width), dbias(centred ? s.size.width : 0);
  if (centred)
    kernels::layer_norm_backward(in, gradient, o.mean.data(), o.rstd.data(), dx.data(), dweight.data(), dbias.data());
  else
    kernels::rms_norm_backward(in, gradient, o.rstd.data(), dx.data(), dweight.data());
  require_same_bits(o.dweight, dweight);
  require_same_bits(o.dbias, dbias);
}

template <class F>
void for_each_case(F&& f) {
  for (const auto type : fp32_dtypes)
    for (const bool centred : {true, false})
      for (const shape& size : shapes)
        BOOST_TEST_CONTEXT((centred ? "layer norm of " : "RMS norm of ")
                           << size.rows << " rows of " << size.width << " " << core::name_of(type))
  f(centred, sample(type, size));
}

}  // namespace

BOOST_AUTO_TEST_CASE(both_ways_are_within_the_bound_of_fp64_and_sums_over_rows_have_the_cpus_bits) {
  for_each_case([](bool centred, const sample& s) {
    for (const bool with_past : {false, true}) {
      const auto o = run(centred, s, with_past);
      require_near_fp64(centred, s, with_past, o);
      require_cpus_sums(centred, s, with_past, o);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_row_has_the_bits_that_it_has_alone) {
  for_each_case([](bool centred, const sample& s) {
    const auto together = run(centred, s, true);
    const uint64_t bytes = s.size.width * core::size_of(s.type);
    for (uint64_t r = 0; r < s.size.rows; r += 1 + s.size.rows / 5) {
      const auto alone = run(centred, s.row(r), true);
      BOOST_REQUIRE(std::memcmp(alone.y.data(), together.y.data() + r * bytes, bytes) == 0);
      BOOST_REQUIRE(std::memcmp(alone.dx.data(), together.dx.data() + r * bytes, bytes) == 0);
      BOOST_REQUIRE(alone.rstd[0] == together.rstd[r]);
    }
  });
}

BOOST_AUTO_TEST_CASE(arrays_may_begin_at_any_element_with_the_same_bits) {
  for_each_case([](bool centred, const sample& s) {
    const auto wanted = run(centred, s, true);
    for (const uint64_t shift : {1U, 4U, 8U}) BOOST_REQUIRE((run(centred, s, true, shift) == wanted));
  });
}

BOOST_AUTO_TEST_CASE(results_may_lie_over_inputs) {
  for (const auto type : fp32_dtypes)
    for (const bool centred : {true, false})
      for (const shape& size : {shape{66, 24}, {5, 7}, {3, 1001}, {2, 8200}}) {
        BOOST_TEST_INFO_SCOPE("centred " << centred);
        const sample s(type, size);
        const auto wanted = run(centred, s, true);
        for (const place over : {place::x, place::dy, place::past})
          BOOST_REQUIRE((run(centred, s, true, 0, over) == wanted));
        device_array<std::byte> x(s.x), weight(s.weight), bias(s.bias);
        const std::vector<float> of_rows(size.rows);
        device_array<float> mean(of_rows), rstd(of_rows);
        const norm_rows kept{.mean = reinterpret_cast<std::byte*>(mean.data()),
                             .rstd = reinterpret_cast<std::byte*>(rstd.data())};
        const norm_input in{
            .x = x.data(), .weight = weight.data(), .type = type, .rows = size.rows, .width = size.width};
        require(centred ? cuda::layer_norm(in, bias.data(), epsilon, x.data(), kept, test_stream())
                        : cuda::rms_norm(in, epsilon, x.data(), kept, test_stream()));
        BOOST_REQUIRE((x.back() == wanted.y));
      }
}

BOOST_AUTO_TEST_CASE(rows_far_from_zero_keep_the_bound) {
  for (const auto type : fp32_dtypes)
    for (const float centre : {300.0F, -20'000.0F}) {
      const sample s(type, {3, 777}, centre);
      for (const bool centred : {true, false}) require_near_fp64(centred, s, true, run(centred, s, true));
    }
}

BOOST_AUTO_TEST_CASE(no_rows_leave_sums_of_zero) {
  const auto o = run(true, sample(core::dtype::bf16, {0, 33}), true);
  require_same_bits(o.dweight, std::vector<float>(33));
  require_same_bits(o.dbias, std::vector<float>(33));
}

BOOST_AUTO_TEST_CASE(fp64_and_rows_that_are_too_wide_are_refused_by_name) {
  const norm_rows kept;
  troupe::tests::check_failed(
      cuda::rms_norm({.type = core::dtype::bf16, .rows = 1, .width = 32'769}, epsilon, nullptr, kept, test_stream()),
      "rows of at most 32768 elements of this type, got 32769");
  troupe::tests::check_failed(cuda::layer_norm({.type = core::dtype::f64, .rows = 1, .width = 8}, nullptr, epsilon,
                                               nullptr, kept, test_stream()),
                              "layer_norm: wanted f32, bf16 or f16, got f64");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
