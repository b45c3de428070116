// Compares SIMD cross-entropy with its scalar reference implementation bit by bit on every SIMD target, and with fp64.
#include "kernels/layers/cross_entropy.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/token_order.hpp"
#include "samples.hpp"
#include "tests/places.hpp"

namespace troupe::kernels::tests {

BOOST_AUTO_TEST_SUITE(cross_entropy)

namespace {

/// Returns logits with a few large outliers, so that the largest logit changes from block to block.
std::vector<float> logits_of(uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> out(count);
  for (auto& x : out) x = random() % 64 == 0 ? 20 * normal(random) : normal(random);
  return out;
}

std::vector<int64_t> targets_of(uint64_t rows, uint64_t width) {
  std::vector<int64_t> out(rows);
  for (uint64_t r = 0; r < rows; ++r) out[r] = static_cast<int64_t>((r * 7919 + 5) % width);
  return out;
}

constexpr loss_form forms[] = {{},
                               {.label_smoothing = 0.1, .vocabulary = 40'000},
                               {.z_loss = 1e-2},
                               {.label_smoothing = 0.3, .z_loss = 5e-2, .vocabulary = 9'001}};

constexpr uint64_t widths[] = {1, 2, 15, 31, 32, 33, 65, 256, loss_block - 1, loss_block, loss_block + 17, 9001};

}  // namespace

BOOST_AUTO_TEST_CASE(vectors_give_the_bits_of_the_scalar_twins) {
  const uint64_t rows = 3;
  for (const core::dtype type : fp32_dtypes)
    for (const uint64_t width : widths) {
      BOOST_TEST_INFO_SCOPE("width " << width);
      BOOST_TEST_INFO_SCOPE(core::name_of(type));
      const auto logits = stored_as(type, logits_of(rows * width, width));
      const auto targets = targets_of(rows, width);
      std::vector<float> wanted(rows), got(rows);
      auto wanted_gradient = logits;
      const double loss = cross_entropy_reference(logits.data(), type, rows, width, targets.data(), wanted.data());
      cross_entropy_backward_reference(wanted_gradient.data(), type, rows, width, width, targets.data(), wanted.data(),
                                       0.3);
      for_each_simd_target([&] {
        auto gradient = logits;
        BOOST_TEST(kernels::cross_entropy(logits.data(), type, rows, width, targets.data(), got.data()) == loss);
        TROUPE_CHECK_SAME_BITS(got, wanted);
        cross_entropy_backward(gradient.data(), type, rows, width, width, targets.data(), got.data(), 0.3);
        TROUPE_CHECK_SAME_BITS(gradient, wanted_gradient);
      });
    }
}

BOOST_AUTO_TEST_CASE(vectors_with_smoothing_and_z_loss_give_the_bits_of_the_scalar_twins) {
  const uint64_t rows = 3;
  for (const core::dtype type : fp32_dtypes)
    for (const uint64_t width : {uint64_t{1}, uint64_t{33}, loss_block + 17})
      for (const loss_form& form : forms) {
        BOOST_TEST_INFO_SCOPE("width " << width << ", smoothing " << form.label_smoothing << ", z " << form.z_loss);
        BOOST_TEST_INFO_SCOPE(core::name_of(type));
        const auto logits = stored_as(type, logits_of(rows * width, width));
        auto targets = targets_of(rows, width);
        targets[1] = core::no_target;
        std::vector<float> wanted(rows), got(rows), wanted_parts(rows * row_statistics), parts(wanted_parts);
        auto wanted_gradient = logits;
        const auto* const at = targets.data();
        const double loss = cross_entropy_reference(logits.data(), type, rows, width, at, wanted.data(), form);
        cross_entropy_part_reference(logits.data(), type, rows, width, width, at, wanted_parts.data(), form);
        cross_entropy_backward_reference(wanted_gradient.data(), type, rows, width, width, at, wanted.data(), 0.3,
                                         form);
        for_each_simd_target([&] {
          auto gradient = logits;
          BOOST_TEST(kernels::cross_entropy(logits.data(), type, rows, width, at, got.data(), form) == loss);
          TROUPE_CHECK_SAME_BITS(got, wanted);
          cross_entropy_part(logits.data(), type, rows, width, width, at, parts.data(), form);
          TROUPE_CHECK_SAME_BITS(parts, wanted_parts);
          cross_entropy_backward(gradient.data(), type, rows, width, width, at, got.data(), 0.3, form);
          TROUPE_CHECK_SAME_BITS(gradient, wanted_gradient);
        });
      }
}

BOOST_AUTO_TEST_CASE(vectors_with_weights_give_the_bits_of_the_scalar_twins) {
  const uint64_t rows = 4, width = loss_block + 17;
  const std::vector<float> weights{0.25F, -3, 1e-6F, 1}, ones(rows, 1.0F);
  for (const core::dtype type : fp32_dtypes)
    for (const loss_form& form : forms) {
      BOOST_TEST_INFO_SCOPE("smoothing " << form.label_smoothing << ", z " << form.z_loss);
      BOOST_TEST_INFO_SCOPE(core::name_of(type));
      const auto logits = stored_as(type, logits_of(rows * width, 5));
      const auto targets = targets_of(rows, width);
      const auto* const at = targets.data();
      std::vector<float> sums(rows), got(rows);
      auto wanted = logits, plain = logits;
      const double loss =
          cross_entropy_reference(logits.data(), type, rows, width, at, sums.data(), form, weights.data());
      cross_entropy_backward_reference(wanted.data(), type, rows, width, width, at, sums.data(), 0.3, form,
                                       weights.data());
      cross_entropy_backward_reference(plain.data(), type, rows, width, width, at, sums.data(), 0.3, form);
      double sum = 0;
      for (uint64_t r = 0; r < rows; ++r)
        sum +=
            static_cast<double>(weights[r]) * cross_entropy_reference(logits.data() + r * width * core::size_of(type),
                                                                      type, 1, width, at + r, got.data(), form);
      BOOST_TEST(loss == sum);
      for_each_simd_target([&] {
        auto gradient = logits, with_ones = logits;
        BOOST_TEST(kernels::cross_entropy(logits.data(), type, rows, width, at, got.data(), form, weights.data()) ==
                   loss);
        cross_entropy_backward(gradient.data(), type, rows, width, width, at, got.data(), 0.3, form, weights.data());
        TROUPE_CHECK_SAME_BITS(gradient, wanted);
        cross_entropy_backward(with_ones.data(), type, rows, width, width, at, got.data(), 0.3, form, ones.data());
        TROUPE_CHECK_SAME_BITS(with_ones, plain);
      });
    }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_weighted_rows_is_that_of_each_row_times_its_weight) {
  const uint64_t rows = 3, width = 50;
  const auto values = logits_of(rows * width, 9);
  std::vector<double> plain(values.begin(), values.end()), weighted = plain, sums(rows);
  const std::vector<float> weights{2, -0.5F, 0};
  const auto targets = targets_of(rows, width);
  const auto bytes_in = [](std::vector<double>& x) { return reinterpret_cast<std::byte*>(x.data()); };
  cross_entropy_reference(bytes_in(plain), core::dtype::f64, rows, width, targets.data(), sums.data());
  cross_entropy_backward_reference(bytes_in(plain), core::dtype::f64, rows, width, width, targets.data(), sums.data(),
                                   1.0);
  cross_entropy_backward_reference(bytes_in(weighted), core::dtype::f64, rows, width, width, targets.data(),
                                   sums.data(), 1.0, {}, weights.data());
  for (uint64_t i = 0; i < plain.size(); ++i)
    BOOST_TEST(weighted[i] == static_cast<double>(weights[i / width]) * plain[i]);
}

BOOST_AUTO_TEST_CASE(loss_and_gradient_are_those_of_fp64) {
  const uint64_t rows = 2, width = 9001;
  const auto values = logits_of(rows * width, 3);
  std::vector<double> wide(values.begin(), values.end());
  const auto targets = targets_of(rows, width);
  std::vector<double> sums(rows);
  std::vector<float> narrow_sums(rows);
  auto gradient = values;
  auto* bytes = reinterpret_cast<std::byte*>(gradient.data());
  auto* wide_bytes = reinterpret_cast<std::byte*>(wide.data());
  const double loss = kernels::cross_entropy(bytes, core::dtype::f32, rows, width, targets.data(), narrow_sums.data());
  double wanted = 0;
  for (uint64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (uint64_t i = 0; i < width; ++i) sum += std::exp(wide[r * width + i]);
    wanted += std::log(sum) - wide[r * width + static_cast<uint64_t>(targets[r])];
  }
  BOOST_TEST(std::abs(loss - wanted) < 1e-5 * wanted);
  const double exact = cross_entropy_reference(wide_bytes, core::dtype::f64, rows, width, targets.data(), sums.data());
  BOOST_TEST(std::abs(exact - wanted) < 1e-12 * wanted);
  cross_entropy_backward(bytes, core::dtype::f32, rows, width, width, targets.data(), narrow_sums.data(), 0.5);
  cross_entropy_backward_reference(wide_bytes, core::dtype::f64, rows, width, width, targets.data(), sums.data(), 0.5);
  for (uint64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (uint64_t i = r * width; i < (r + 1) * width; ++i) {
      BOOST_TEST(std::abs(gradient[i] - wide[i]) < 1e-5 * std::abs(wide[i]) + 1e-12);
      total += wide[i];
    }
    BOOST_TEST(std::abs(total) < 1e-12, "a row's gradients add up to " << total);
  }
}

// Computes the loss over a vocabulary that is sharded at `cut`: the partial results of each shard and the loss that
// combines them, with SIMD or with the scalar reference.
template <class Wide>
double joined(const std::vector<std::byte>& logits, core::dtype type, uint64_t rows, uint64_t width,
              const std::vector<uint64_t>& cut, const std::vector<int64_t>& targets, std::vector<Wide>& log_sums,
              const loss_form& form = {}) {
  std::vector<Wide> statistics;
  const auto rank_stride = rows * row_statistics + 5;
  uint64_t first = 0;
  for (const uint64_t own : cut) {
    auto here = targets;
    for (auto& t : here) t -= static_cast<int64_t>(first);
    statistics.resize(statistics.size() + rank_stride);
    Wide* out = &*statistics.end() - rank_stride;
    const auto* x = logits.data() + first * core::size_of(type);
    if constexpr (std::is_same_v<Wide, float>)
      cross_entropy_part(x, type, rows, own, width, here.data(), out, form);
    else
      cross_entropy_part_reference(x, type, rows, own, width, here.data(), out, form);
    first += own;
  }
  return joined_cross_entropy<Wide>(statistics.data(), cut.size(), rank_stride, rows, log_sums.data(), form);
}

// The script tests/peer/make_loss_fixture.py generates the fixture.
BOOST_AUTO_TEST_CASE(label_smoothing_is_that_of_torchs_cross_entropy_and_z_loss_has_its_derivative) {
  std::ifstream file(std::string(troupe::places::source_dir) + "/tests/kernels/fixtures/losses.json");
  BOOST_REQUIRE(file);
  const auto fixture = nlohmann::json::parse(file);
  const auto values = fixture["logits"].get<std::vector<double>>();
  const std::vector<float> narrow(values.begin(), values.end());
  auto targets = fixture["targets"].get<std::vector<int64_t>>();
  for (int64_t& t : targets)
    if (t < 0) t = core::no_target;
  const uint64_t rows = targets.size(), width = fixture["columns"];
  BOOST_REQUIRE_EQUAL(fixture["cases"].size(), 5);
  for (const auto& [name, wanted] : fixture["cases"].items()) {
    BOOST_TEST_INFO_SCOPE(name);
    const loss_form form{.label_smoothing = wanted["label_smoothing"].get<double>(),
                         .z_loss = wanted["z_loss"].get<double>(),
                         .vocabulary = width};
    const double loss = wanted["loss"];
    const auto slopes = wanted["gradient"].get<std::vector<double>>();
    const auto check = [&]<class Wide>(const std::vector<Wide>& logits, core::dtype type, double most) {
      const auto* bytes = reinterpret_cast<const std::byte*>(logits.data());
      const std::vector<std::byte> stored(bytes, bytes + logits.size() * sizeof(Wide));
      std::vector<Wide> sums(rows), of_parts(rows);
      const double got = cross_entropy_reference(stored.data(), type, rows, width, targets.data(), sums.data(), form);
      BOOST_TEST(std::abs(got - loss) < most * loss);
      BOOST_TEST(std::abs(joined(stored, type, rows, width, {8, 1, width - 9}, targets, of_parts, form) - loss) <
                 most * loss);
      auto gradient = logits;
      cross_entropy_backward_reference(reinterpret_cast<std::byte*>(gradient.data()), type, rows, width, width,
                                       targets.data(), sums.data(), 1, form);
      for (size_t i = 0; i < slopes.size(); ++i)
        BOOST_TEST(std::abs(static_cast<double>(gradient[i]) - slopes[i]) < most, "logit " << i);
    };
    check(values, core::dtype::f64, 1e-12);
    check(narrow, core::dtype::f32, 1e-5);
  }
}

// Rows without a target add nothing to the loss and get the gradient 0; the other rows have the same bits as in a
// batch without such rows.
BOOST_AUTO_TEST_CASE(rows_without_a_target_are_left_out) {
  const uint64_t rows = 4, width = 65;
  for (const core::dtype type : fp32_dtypes) {
    const auto logits = stored_as(type, logits_of(rows * width, 9));
    const std::vector<int64_t> targets{core::no_target, 3, core::no_target, 64};
    const auto row = [&](const std::vector<std::byte>& of, uint64_t r) {
      const uint64_t bytes = width * core::size_of(type);
      return std::vector<std::byte>(of.begin() + static_cast<long>(r * bytes),
                                    of.begin() + static_cast<long>((r + 1) * bytes));
    };
    std::vector<float> wanted_sums(rows), sums(rows), joined_sums(rows);
    const double wanted = cross_entropy_reference(logits.data(), type, rows, width, targets.data(), wanted_sums.data());
    double alone = 0;
    auto gradient = logits;
    cross_entropy_backward_reference(gradient.data(), type, rows, width, width, targets.data(), wanted_sums.data(),
                                     0.3);
    for (const uint64_t r : {1U, 3U}) {
      float sum = 0;
      auto only = row(logits, r);
      alone += cross_entropy_reference(only.data(), type, 1, width, &targets[r], &sum);
      cross_entropy_backward_reference(only.data(), type, 1, width, width, &targets[r], &sum, 0.3);
      TROUPE_CHECK_SAME_BITS(row(gradient, r), only);
    }
    BOOST_TEST(wanted == alone);
    const std::vector<std::byte> zeros(width * core::size_of(type));
    for (const uint64_t r : {0U, 2U}) TROUPE_CHECK_SAME_BITS(row(gradient, r), zeros);
    for_each_simd_target([&] {
      auto got = logits;
      BOOST_TEST(kernels::cross_entropy(logits.data(), type, rows, width, targets.data(), sums.data()) == wanted);
      cross_entropy_backward(got.data(), type, rows, width, width, targets.data(), sums.data(), 0.3);
      TROUPE_CHECK_SAME_BITS(got, gradient);
      const double of_parts = joined(logits, type, rows, width, {40, 25}, targets, joined_sums);
      BOOST_TEST(std::abs(of_parts - wanted) <= 1e-5 * wanted);
      auto part = logits;
      cross_entropy_backward(part.data(), type, rows, width, width, targets.data(), joined_sums.data(), 0.3);
      for (const uint64_t r : {0U, 2U}) TROUPE_CHECK_SAME_BITS(row(part, r), row(gradient, r));
    });
  }
}

BOOST_AUTO_TEST_CASE(parts_of_a_vocabulary_have_the_loss_of_all_of_it) {
  const uint64_t rows = 3, width = loss_block + 800;
  const auto values = logits_of(rows * width, 5);
  const std::vector<double> wide(values.begin(), values.end());
  const auto targets = targets_of(rows, width);
  for (const auto& cut : {std::vector<uint64_t>{width}, {width - 1, 1}, {1700, 1600, width - 3300}}) {
    std::vector<double> sums(rows), wanted(rows);
    const auto* bytes = reinterpret_cast<const std::byte*>(wide.data());
    const double whole = cross_entropy_reference(bytes, core::dtype::f64, rows, width, targets.data(), wanted.data());
    const std::vector<std::byte> stored(bytes, bytes + wide.size() * sizeof(double));
    BOOST_TEST(std::abs(joined(stored, core::dtype::f64, rows, width, cut, targets, sums) - whole) < 1e-12 * whole);
    for (uint64_t r = 0; r < rows; ++r) BOOST_TEST(std::abs(sums[r] - wanted[r]) < 1e-12);
    for (const core::dtype type : fp32_dtypes) {
      BOOST_TEST_INFO_SCOPE(core::name_of(type));
      const auto narrow = stored_as(type, values);
      std::vector<float> of_parts(rows), of_all(rows);
      const double loss = kernels::cross_entropy(narrow.data(), type, rows, width, targets.data(), of_all.data());
      for_each_simd_target([&] {
        BOOST_TEST(std::abs(joined(narrow, type, rows, width, cut, targets, of_parts) - loss) < 1e-5 * loss);
        if (cut.size() == 1) TROUPE_CHECK_SAME_BITS(of_parts, of_all);
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(statistics_and_gradients_of_a_part_have_the_bits_of_their_twins_and_leave_zeros_behind_it) {
  const uint64_t rows = 3, stride = loss_block + 30;
  for (const core::dtype type : fp32_dtypes)
    for (const uint64_t width : {uint64_t{7}, stride - 1, stride}) {
      BOOST_TEST_INFO_SCOPE("width " << width);
      BOOST_TEST_INFO_SCOPE(core::name_of(type));
      const auto logits = stored_as(type, logits_of(rows * stride, width));
      const std::vector<int64_t> targets{-4, static_cast<int64_t>(width) - 1, static_cast<int64_t>(width)};
      std::vector<float> wanted(rows * row_statistics), got(wanted);
      cross_entropy_part_reference(logits.data(), type, rows, width, stride, targets.data(), wanted.data());
      BOOST_TEST((wanted[2] == 0 && wanted[2 * row_statistics + 2] == 0));
      const std::vector<float> log_sums{3, 4, 5};
      auto wanted_gradient = logits;
      cross_entropy_backward_reference(wanted_gradient.data(), type, rows, width, stride, targets.data(),
                                       log_sums.data(), 0.7);
      const auto element = core::size_of(type);
      for (uint64_t i = width * element; i < stride * element; ++i) BOOST_REQUIRE(wanted_gradient[i] == std::byte{0});
      for_each_simd_target([&] {
        cross_entropy_part(logits.data(), type, rows, width, stride, targets.data(), got.data());
        TROUPE_CHECK_SAME_BITS(got, wanted);
        auto gradient = logits;
        cross_entropy_backward(gradient.data(), type, rows, width, stride, targets.data(), log_sums.data(), 0.7);
        TROUPE_CHECK_SAME_BITS(gradient, wanted_gradient);
      });
    }
}

BOOST_AUTO_TEST_CASE(columns_of_minus_infinity_leave_the_others_alone) {
  std::vector<float> x(3 * loss_block, -std::numeric_limits<float>::infinity());
  x[loss_block + 5] = x[2 * loss_block + 9] = 2.0F;
  const auto target = static_cast<int64_t>(loss_block + 5);
  float log_sum = 0;
  for_each_simd_target([&] {
    auto gradient = x;
    auto* bytes = reinterpret_cast<std::byte*>(gradient.data());
    const double loss = kernels::cross_entropy(bytes, core::dtype::f32, 1, x.size(), &target, &log_sum);
    BOOST_TEST(std::abs(loss - std::log(2.0)) < 1e-6);
    cross_entropy_backward(bytes, core::dtype::f32, 1, x.size(), x.size(), &target, &log_sum, 1);
    BOOST_TEST(std::abs(gradient[loss_block + 5] + 0.5F) < 1e-6F);
    BOOST_TEST(std::abs(gradient[2 * loss_block + 9] - 0.5F) < 1e-6F);
    BOOST_TEST(gradient[0] == 0.0F);
  });
}

BOOST_AUTO_TEST_CASE(a_row_with_nan_has_the_loss_nan) {
  std::vector<float> x(100, 1.0F);
  x[17] = std::numeric_limits<float>::quiet_NaN();
  const int64_t target = 3;
  float log_sum = 0;
  for_each_simd_target([&] {
    const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
    BOOST_TEST(std::isnan(kernels::cross_entropy(bytes, core::dtype::f32, 1, x.size(), &target, &log_sum)));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::kernels::tests
