#include "kernels/products/matrix_product.hpp"

#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(matrix_product)

namespace {

template <class T>
void product(const matrix_view<T>& a, const matrix_view<T>& b, T* out, product_shape shape = product_shape::general) {
  std::vector<T> scratch(product_scratch(a.rows, a.cols, b.cols));
  kernels::matrix_product(a, b, out, std::span(scratch), shape);
}

template <class T>
std::vector<T> numbers(uint64_t count, uint64_t seed) {
  const auto all = awkward_floats(count, seed);
  return {all.begin(), all.end()};
}

/// Checks a product for each layout of its operands: a and b are each stored by rows or by columns.
template <class T>
void check_product(uint64_t m, uint64_t k, uint64_t n) {
  BOOST_TEST_CONTEXT(m << " x " << k << " x " << n) {
    const auto a = numbers<T>(m * k, 1);
    const auto b = numbers<T>(k * n, 2);
    for (const bool a_by_columns : {false, true}) {
      for (const bool b_by_columns : {false, true}) {
        const auto left = a_by_columns ? row_major(a.data(), k, m).transposed() : row_major(a.data(), m, k);
        const auto right = b_by_columns ? row_major(b.data(), n, k).transposed() : row_major(b.data(), k, n);
        std::vector<T> got(m * n, 7);
        std::vector<T> wanted(m * n, 9);
        product(left, right, got.data());
        matrix_product_reference(left, right, wanted.data());
        TROUPE_CHECK_SAME_BITS(got, wanted);
      }
    }
  }
}

template <class T>
void check_symmetric(uint64_t m, uint64_t k) {
  BOOST_TEST_CONTEXT(m << " x " << k) {
    const auto a = numbers<T>(m * k, 3);
    const auto x = row_major(a.data(), m, k);
    std::vector<T> got(m * m, 7);
    std::vector<T> wanted(m * m, 9);
    product(x, x.transposed(), got.data(), product_shape::symmetric);
    matrix_product_reference(x, x.transposed(), wanted.data());
    TROUPE_CHECK_SAME_BITS(got, wanted);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_shape_stride_and_target_gives_the_scalar_bits) {
  for_each_simd_target([] {
    for (const uint64_t m : {1U, 5U, 12U, 13U}) {
      for (const uint64_t n : {1U, 7U, 16U, 33U, 65U}) {
        for (const uint64_t k : {1U, 17U, 255U, 257U, 600U}) check_product<float>(m, k, n);
      }
    }
    check_product<float>(150, 40, 1600);  // the matrices are larger than the processor's caches
    for (const uint64_t m : {1U, 6U, 13U, 40U}) check_product<double>(m, 300, m + 3);
  });
}

BOOST_AUTO_TEST_CASE(a_symmetric_product_has_the_bits_of_the_general_one) {
  for_each_simd_target([] {
    for (const uint64_t m : {1U, 12U, 31U, 32U, 33U, 100U, 200U}) check_symmetric<float>(m, 70);
    check_symmetric<float>(33, 600);
    check_symmetric<double>(61, 300);
  });
}

BOOST_AUTO_TEST_CASE(small_whole_numbers_multiply_exactly) {
  const std::vector<float> a{1, 2, 3, 4, 5, 6};
  const std::vector<float> b{7, 8, 9, 10, 11, 12};
  std::vector<float> out(4);
  product(row_major(a.data(), 2, 3), row_major(b.data(), 3, 2), out.data());
  const std::vector<float> wanted{58, 64, 139, 154};
  BOOST_TEST(out == wanted);
}

BOOST_AUTO_TEST_CASE(an_empty_sum_is_zero) {
  std::vector<float> out(6, 3);
  product(row_major<float>(nullptr, 2, 0), row_major<float>(nullptr, 0, 3), out.data());
  BOOST_TEST(out == std::vector<float>(6, 0.0F));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
