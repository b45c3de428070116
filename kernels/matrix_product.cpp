#include "kernels/matrix_product.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace troupe::kernels {
namespace {

template <class T>
void product_by_element(const matrix_view<T>& a, const matrix_view<T>& b, T* out) {
  assert(a.cols == b.rows);
  for (uint64_t i = 0; i < a.rows; ++i) {
    for (uint64_t j = 0; j < b.cols; ++j) {
      T sum = 0;
      for (uint64_t first = 0; first < a.cols; first += product_grain) {
        T run = 0;
        for (uint64_t k = first; k < std::min(a.cols, first + product_grain); ++k)
          run = std::fma(a.data[i * a.row_stride + k * a.col_stride], b.data[k * b.row_stride + j * b.col_stride], run);
        sum = first == 0 ? run : sum + run;
      }
      out[i * b.cols + j] = sum;
    }
  }
}

}  // namespace

void matrix_product(const matrix_view<float>& a, const matrix_view<float>& b, float* out) {
  product_by_element(a, b, out);
}
void matrix_product(const matrix_view<double>& a, const matrix_view<double>& b, double* out) {
  product_by_element(a, b, out);
}
void matrix_product_reference(const matrix_view<float>& a, const matrix_view<float>& b, float* out) {
  product_by_element(a, b, out);
}
void matrix_product_reference(const matrix_view<double>& a, const matrix_view<double>& b, double* out) {
  product_by_element(a, b, out);
}

}  // namespace troupe::kernels
