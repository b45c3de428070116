// Tests cross-entropy on the device: results are within a bound of fp64, their bits do not depend on other rows or on
// addresses, and out-of-range logits or targets have the CPU's results.
#include "kernels/layers/cross_entropy.hpp"

#include <limits>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"
#include "tests/kernels/cuda/rounding.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(cross_entropy)

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Widths around the sizes of vector loads, warps and the elements that a thread loads at once; the last one is large
/// and odd.
constexpr uint64_t widths[] = {1, 2, 7, 8, 9, 31, 65, 256, 513, 1000, 2047, 4099, 12'289};

/// Returns logits with a few large outliers; with `large`, they are so large that their exponentials are infinite.
std::vector<float> logits_of(uint64_t count, uint64_t seed, bool large = false) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> out(count);
  for (auto& x : out) x = (random() % 64 == 0 ? 20.0F : 1.0F) * normal(random) + (large ? 30'000.0F : 0.0F);
  return out;
}
std::vector<int64_t> targets_of(uint64_t rows, uint64_t width) {
  std::vector<int64_t> out(rows);
  for (uint64_t r = 0; r < rows; ++r) out[r] = static_cast<int64_t>((r * 7919 + 5) % width);
  return out;
}

struct outcome {
  std::vector<float> log_sums;
  float loss = -1;
};

outcome run(core::dtype type, const std::vector<std::byte>& logits, const std::vector<int64_t>& targets,
            uint64_t shift = 0) {
  const uint64_t rows = targets.size(), width = logits.size() / core::size_of(type) / rows;
  device_array<std::byte> x(logits, shift * core::size_of(type));
  device_array<int64_t> at(targets);
  device_array<float> log_sums((std::vector<float>(rows))), loss(std::vector<float>{-1});
  require(cuda::cross_entropy(x.data(), type, rows, width, at.data(), reinterpret_cast<std::byte*>(log_sums.data()),
                              reinterpret_cast<std::byte*>(loss.data()), test_stream()));
  return {log_sums.back(), loss.back()[0]};
}

std::vector<std::byte> run_backward(core::dtype type, const std::vector<std::byte>& logits, uint64_t width,
                                    uint64_t stride, const std::vector<int64_t>& targets,
                                    const std::vector<float>& log_sums, float gradient, uint64_t mean_rows,
                                    uint64_t shift = 0) {
  device_array<std::byte> x(logits, shift * core::size_of(type));
  device_array<int64_t> at(targets);
  device_array<float> sums(log_sums), factor(std::vector<float>{gradient});
  require(cuda::cross_entropy_backward(x.data(), type, targets.size(), width, stride, at.data(),
                                       reinterpret_cast<std::byte*>(sums.data()),
                                       reinterpret_cast<std::byte*>(factor.data()), mean_rows, test_stream()));
  return x.back();
}

std::vector<float> run_part(core::dtype type, const std::vector<std::byte>& logits, uint64_t width, uint64_t stride,
                            const std::vector<int64_t>& targets, uint64_t shift = 0) {
  device_array<std::byte> x(logits, shift * core::size_of(type));
  device_array<int64_t> at(targets);
  device_array<float> out(std::vector<float>(targets.size() * row_statistics));
  require(cuda::cross_entropy_part(x.data(), type, targets.size(), width, stride, at.data(),
                                   reinterpret_cast<std::byte*>(out.data()), test_stream()));
  return out.back();
}

outcome run_joined(const std::vector<float>& statistics, uint64_t ranks, uint64_t rank_stride, uint64_t rows) {
  device_array<float> all(statistics), log_sums((std::vector<float>(rows))), loss(std::vector<float>{-1});
  require(cuda::joined_cross_entropy(reinterpret_cast<std::byte*>(all.data()), core::dtype::f32, ranks, rank_stride,
                                     rows, reinterpret_cast<std::byte*>(log_sums.data()),
                                     reinterpret_cast<std::byte*>(loss.data()), test_stream()));
  return {log_sums.back(), loss.back()[0]};
}

/// Returns the largest allowed error of a log-sum: 2^-18, and half a unit of the last place of fp32.
double log_sum_bound(double exact) { return 0x1p-18 + 0x1p-23 * std::abs(exact); }

void require_near_fp64(core::dtype type, const std::vector<float>& values, const std::vector<int64_t>& targets) {
  const uint64_t rows = targets.size(), width = values.size() / rows;
  const auto stored = stored_as(type, values);
  const auto exact_logits = wide(type, stored);
  std::vector<double> exact_sums(rows);
  const double exact = cross_entropy_reference(bytes_of(exact_logits), core::dtype::f64, rows, width, targets.data(),
                                               exact_sums.data()) /
                       static_cast<double>(rows);
  const auto o = run(type, stored, targets);
  double worst = 0;
  for (uint64_t r = 0; r < rows; ++r) {
    BOOST_REQUIRE_SMALL(o.log_sums[r] - exact_sums[r], log_sum_bound(exact_sums[r]));
    worst = std::max(worst, log_sum_bound(exact_sums[r]));
  }
  BOOST_REQUIRE_SMALL(o.loss - exact, worst + 0x1p-23 * std::abs(exact));

  const float gradient = 0.37F;
  const uint64_t mean_rows = rows + 2;
  const double factor = double{gradient} / static_cast<double>(mean_rows);
  const auto got = wide(type, run_backward(type, stored, width, width, targets, o.log_sums, gradient, mean_rows));
  for (uint64_t i = 0; i < values.size(); ++i) {
    const double from = exact_logits[i] - o.log_sums[i / width], p = from < -87 ? 0 : std::exp(from);
    const bool wanted = static_cast<int64_t>(i % width) == targets[i / width];
    const double exact_gradient = (p - (wanted ? 1 : 0)) * factor;
    const double error = factor * (p * (8 + 2 * std::abs(from)) + (wanted ? 2 : 0)) * 0x1p-24;
    BOOST_REQUIRE_SMALL(got[i] - exact_gradient, error + half_unit(type, exact_gradient) + 0x1p-120);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(loss_and_gradient_are_within_the_bound_of_fp64) {
  for (const auto type : fp32_dtypes)
    for (const uint64_t width : widths) BOOST_TEST_CONTEXT("rows of " << width << " " << core::name_of(type))
  require_near_fp64(type, logits_of(3 * width, width), targets_of(3, width));
}

BOOST_AUTO_TEST_CASE(logits_whose_powers_overflow_keep_the_bound) {
  for (const auto type : fp32_dtypes)
    for (const uint64_t width : {9U, 1000U}) BOOST_TEST_CONTEXT("rows of " << width << " " << core::name_of(type))
  require_near_fp64(type, logits_of(2 * width, width, true), targets_of(2, width));
}

BOOST_AUTO_TEST_CASE(a_row_has_the_bits_that_it_has_alone_wherever_it_begins) {
  const uint64_t rows = 9;  // more rows than the grid has blocks on the host
  for (const auto type : fp32_dtypes)
    for (const uint64_t width : {1U, 9U, 65U, 1001U, 4099U}) {
      BOOST_TEST_INFO_SCOPE("width " << width);
      const auto all = stored_as(type, logits_of(rows * width, width));
      const auto targets = targets_of(rows, width);
      const auto together = run(type, all, targets);
      const auto gradient = run_backward(type, all, width, width, targets, together.log_sums, 2, rows);
      const auto bytes = static_cast<std::ptrdiff_t>(width * core::size_of(type));
      for (uint64_t r = 0; r < rows; ++r) {
        const auto at = static_cast<std::ptrdiff_t>(r) * bytes;
        const std::vector<std::byte> one(all.begin() + at, all.begin() + at + bytes);
        for (const uint64_t shift : {uint64_t{0}, r}) {
          BOOST_TEST_INFO_SCOPE("shift " << shift);
          BOOST_REQUIRE_EQUAL(run(type, one, {targets[r]}, shift).log_sums[0], together.log_sums[r]);
          const auto alone =
              run_backward(type, one, width, width, {targets[r]}, {together.log_sums[r]}, 2, rows, shift);
          BOOST_REQUIRE(std::memcmp(alone.data(), gradient.data() + at, width * core::size_of(type)) == 0);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(parts_of_a_vocabulary_have_the_loss_of_all_of_it) {
  const uint64_t rows = 5, width = 3001;
  for (const auto type : fp32_dtypes) {
    const auto stored = stored_as(type, logits_of(rows * width, 5));
    const auto targets = targets_of(rows, width);
    const auto whole = run(type, stored, targets);
    for (const auto& cut : {std::vector<uint64_t>{width}, {width - 1, 1}, {1500, 1400, 101}}) {
      const uint64_t rank_stride = rows * row_statistics + 5;
      std::vector<float> statistics;
      uint64_t first = 0;
      for (const uint64_t own : cut) {
        // In memory, the rows of a rank's vocabulary shard are separated by columns of other ranks.
        const uint64_t stride = own + 3;
        std::vector<float> zeros(rows * stride);
        auto part = stored_as(type, zeros);
        for (uint64_t r = 0; r < rows; ++r)
          std::memcpy(part.data() + r * stride * core::size_of(type),
                      stored.data() + (r * width + first) * core::size_of(type), own * core::size_of(type));
        auto here = targets;
        for (auto& t : here) t -= static_cast<int64_t>(first);
        auto of_rank = run_part(type, part, own, stride, here, first % 7);
        of_rank.resize(rank_stride, 99);
        statistics.insert(statistics.end(), of_rank.begin(), of_rank.end());
        first += own;
      }
      const auto joined = run_joined(statistics, cut.size(), rank_stride, rows);
      if (cut.size() == 1) require_same_bits(joined.log_sums, whole.log_sums);
      for (uint64_t r = 0; r < rows; ++r)
        BOOST_REQUIRE_SMALL(double{joined.log_sums[r]} - whole.log_sums[r], 2 * log_sum_bound(whole.log_sums[r]));
      BOOST_REQUIRE_SMALL(double{joined.loss} - whole.loss, 2 * log_sum_bound(whole.loss));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_target_that_is_no_column_is_another_ranks_and_columns_behind_a_row_become_zero) {
  const uint64_t rows = 3, stride = 1030;
  for (const auto type : fp32_dtypes)
    for (const uint64_t width : {uint64_t{7}, stride - 1, stride}) {
      BOOST_TEST_INFO_SCOPE("width " << width);
      const auto stored = stored_as(type, logits_of(rows * stride, width));
      const std::vector<int64_t> targets{-4, static_cast<int64_t>(width) - 1, static_cast<int64_t>(width)};
      const auto statistics = run_part(type, stored, width, stride, targets);
      const auto values = wide(type, stored);
      BOOST_TEST(statistics[2] == 0);
      BOOST_TEST(statistics[row_statistics + 2] == values[stride + width - 1]);
      BOOST_TEST(statistics[2 * row_statistics + 2] == 0);
      std::vector<float> log_sums;
      for (uint64_t r = 0; r < rows; ++r)
        log_sums.push_back(statistics[r * row_statistics] + std::log(statistics[r * row_statistics + 1]));
      const auto got = run_backward(type, stored, width, stride, targets, log_sums, 1, 1);
      auto cpus = stored;
      kernels::cross_entropy_backward(cpus.data(), type, rows, width, stride, targets.data(), log_sums.data(), 1);
      const auto found = wide(type, got), wanted = wide(type, cpus);
      for (uint64_t i = 0; i < found.size(); ++i) {
        if (i % stride >= width)
          BOOST_REQUIRE(got[i * core::size_of(type)] == std::byte{0} && found[i] == 0);
        else
          BOOST_REQUIRE_SMALL(found[i] - wanted[i],
                              0x1p-18 * std::abs(wanted[i]) + 2 * half_unit(type, wanted[i]) + 0x1p-23);
      }
    }
}

BOOST_AUTO_TEST_CASE(logits_of_minus_infinity_have_no_part_in_a_row) {
  std::vector<float> x(3000, -infinity);
  x[1005] = x[2009] = 2.0F;
  const std::vector<int64_t> target{1005};
  for (const auto type : fp32_dtypes) {
    const auto stored = stored_as(type, x);
    const auto o = run(type, stored, target);
    BOOST_TEST(std::abs(o.loss - std::log(2.0)) < 1e-6);
    const auto gradient = wide(type, run_backward(type, stored, x.size(), x.size(), target, o.log_sums, 1, 1));
    for (uint64_t i = 0; i < x.size(); ++i)
      BOOST_REQUIRE_SMALL(gradient[i] - (i == 1005   ? -0.5
                                         : i == 2009 ? 0.5
                                                     : 0),
                          i == 1005 || i == 2009 ? 1e-3 : 1e-300);
    const auto none = run_part(type, stored, 1000, 3000, {0});
    BOOST_TEST(none[0] == -infinity);
    BOOST_TEST(none[1] == 0);
    BOOST_TEST(none[2] == -infinity);
    const auto one = run_part(type, stored, 3000, 3000, {-1});
    BOOST_TEST((one == std::vector<float>{2, 2, 0}));
  }
}

BOOST_AUTO_TEST_CASE(a_row_with_nan_or_infinity_has_the_loss_nan_as_on_the_cpu) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), infinity})
    for (const auto type : fp32_dtypes) {
      BOOST_TEST_INFO_SCOPE("odd " << odd);
      std::vector<float> x(700, 1.0F);
      x[417] = odd;
      const auto stored = stored_as(type, x);
      const int64_t target = 3;
      float log_sum = 0;
      BOOST_TEST(std::isnan(kernels::cross_entropy(stored.data(), type, 1, x.size(), &target, &log_sum)));
      const auto o = run(type, stored, {target});
      BOOST_TEST(std::isnan(o.loss));
      BOOST_TEST(std::isnan(o.log_sums[0]));
    }
}

BOOST_AUTO_TEST_CASE(losses_of_more_rows_than_a_block_has_threads_are_added_up) {
  const uint64_t rows = 1500;
  std::vector<float> statistics;
  double sum = 0;
  for (uint64_t r = 0; r < rows; ++r) {
    for (const float s : {static_cast<float>(r % 7), 1.0F + static_cast<float>(r % 3), -static_cast<float>(r)})
      statistics.push_back(s);
    sum += static_cast<double>(r % 7) + std::log(1.0 + static_cast<double>(r % 3)) + static_cast<double>(r);
  }
  const double mean = sum / static_cast<double>(rows);
  BOOST_REQUIRE_SMALL(run_joined(statistics, 1, 3 * rows, rows).loss - mean, 1e-6 * mean);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
