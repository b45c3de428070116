#include "kernels/optimizer/orthogonalise.hpp"

#include <numeric>
#include <thread>

#include "kernels/products/matrix_product.hpp"
#include "tests/kernels/optimizer_runs.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(orthogonalise)

namespace {

template <class T>
std::vector<T> random_matrix(uint64_t count) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::vector<T> out(count);
  for (auto& x : out) x = static_cast<T>(normal(random));
  return out;
}

template <class T>
std::vector<T> orthogonal_of(std::vector<T> matrix, uint64_t rows, uint64_t cols, uint32_t steps = 5) {
  std::vector<T> scratch(orthogonalise_scratch(rows, cols));
  kernels::orthogonalise_unchecked(std::span(matrix), rows, cols, steps, std::span(scratch));
  return matrix;
}

}  // namespace

BOOST_AUTO_TEST_CASE(singular_values_end_near_one) {
  for (const auto& [rows, cols] : {std::pair{20U, 50U}, std::pair{50U, 20U}}) {
    const auto x = orthogonal_of(random_matrix<double>(rows * cols), rows, cols);
    const auto view = row_major(x.data(), rows, cols);
    const uint64_t small = std::min(rows, cols);
    std::vector<double> gram(small * small);
    matrix_product_reference(rows > cols ? view.transposed() : view, rows > cols ? view : view.transposed(),
                             gram.data());
    const double aspect = std::max(1.0, static_cast<double>(rows) / cols);
    double trace = 0;  // sum of the squared singular values; `squares` is the sum of their squares
    for (uint64_t i = 0; i < small; ++i) trace += gram[i * small + i] / aspect;
    const double squares = std::inner_product(gram.begin(), gram.end(), gram.begin(), 0.0) / (aspect * aspect);
    BOOST_CHECK_GT(trace, 0.6 * static_cast<double>(small));
    BOOST_CHECK_LT(trace, 1.4 * static_cast<double>(small));
    BOOST_CHECK_LT(squares / static_cast<double>(small) - std::pow(trace / static_cast<double>(small), 2), 0.15);
  }
}

BOOST_AUTO_TEST_CASE(the_scale_of_the_input_does_not_matter) {
  const auto given = random_matrix<double>(12 * 9);
  auto scaled = given;
  for (auto& x : scaled) x *= 1e6;
  BOOST_CHECK_LT(relative_difference(orthogonal_of(scaled, 12, 9), orthogonal_of(given, 12, 9)), 1e-12);
}

BOOST_AUTO_TEST_CASE(a_transposed_matrix_gives_the_transposed_result_times_its_aspect) {
  const uint64_t rows = 30;
  const uint64_t cols = 10;
  const auto wide = random_matrix<float>(rows * cols);
  std::vector<float> tall(wide.size());
  for (uint64_t i = 0; i < cols; ++i)
    for (uint64_t j = 0; j < rows; ++j) tall[j * cols + i] = wide[i * rows + j];
  const auto of_wide = orthogonal_of(wide, cols, rows);
  const auto of_tall = orthogonal_of(tall, rows, cols);
  std::vector<float> wanted(tall.size());
  for (uint64_t i = 0; i < cols; ++i)
    for (uint64_t j = 0; j < rows; ++j) wanted[j * cols + i] = std::sqrt(3.0F) * of_wide[i * rows + j];
  BOOST_CHECK_LT(relative_difference(of_tall, wanted), 1e-6);
}

BOOST_AUTO_TEST_CASE(zeros_and_single_elements_are_matrices_too) {
  const std::vector<float> zeros(12);
  TROUPE_CHECK_SAME_BITS(orthogonal_of(zeros, 3, 4), zeros);
  const auto one = orthogonal_of(std::vector<float>{-3.0F}, 1, 1);
  BOOST_CHECK_LT(one[0], -0.6F);
  BOOST_CHECK_GT(one[0], -1.3F);
}

BOOST_AUTO_TEST_CASE(targets_threads_and_alignment_change_no_bit) {
  const uint64_t rows = 70;
  const uint64_t cols = 130;
  const auto given = random_matrix<float>(rows * cols);
  const auto wanted = orthogonal_of(given, rows, cols);
  for_each_simd_target([&] { TROUPE_CHECK_SAME_BITS(orthogonal_of(given, rows, cols), wanted); });
  std::vector<float> elsewhere(given.size() + 1);
  std::copy(given.begin(), given.end(), elsewhere.begin() + 1);
  std::vector<float> scratch(orthogonalise_scratch(rows, cols) + 1);
  std::thread other([&] {
    kernels::orthogonalise_unchecked(std::span(elsewhere).subspan(1), rows, cols, 5, std::span(scratch).subspan(1));
  });
  other.join();
  TROUPE_CHECK_SAME_BITS(std::vector<float>(elsewhere.begin() + 1, elsewhere.end()), wanted);
}

BOOST_AUTO_TEST_CASE(fp32_follows_fp64_within_rounding) {
  const auto exact = random_matrix<double>(64 * 200);
  const std::vector<float> given(exact.begin(), exact.end());
  const std::vector<double> widened(given.begin(), given.end());
  BOOST_CHECK_LT(relative_difference(orthogonal_of(given, 64, 200), orthogonal_of(widened, 64, 200)), 1e-5);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
