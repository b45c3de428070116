#include "models/segment/widened_products.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/base/cast.hpp"
#include "models/segment/products.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Rows [row, row + rows) and columns [col, col + cols) of a matrix.
struct tile {
  int64_t row, rows, col, cols;
};

const std::byte* element(const at::Tensor& x, int64_t row, int64_t col) {
  return bytes_of(x) + static_cast<size_t>(row * x.stride(0) + col * x.stride(1)) * x.element_size();
}

/// Converts `times` runs of `count` consecutive elements between fp32 and a 16-bit type; the strides are the elements
/// from one run to the next.
void convert(const std::byte* from, core::dtype from_type, int64_t from_stride, std::byte* to, core::dtype to_type,
             int64_t to_stride, int64_t times, int64_t count) {
  if (from_stride == count && to_stride == count) {
    count *= times;
    times = 1;
  }
  const auto from_step = static_cast<size_t>(from_stride) * core::size_of(from_type);
  const auto to_step = static_cast<size_t>(to_stride) * core::size_of(to_type);
  for (int64_t i = 0; i < times; ++i, from += from_step, to += to_step)
    kernels::cast(from, from_type, to, to_type, static_cast<uint64_t>(count));
}

/// Temporary memory for one tile of a factor, converted from 16 bits to fp32.
class widened_factor {
 public:
  widened_factor(const at::Tensor& from, int64_t rows_max, int64_t cols_max)
      : from_(from.stride(1) == 1 || from.stride(0) == 1 ? from : from.contiguous()),
        turned_(from_.stride(1) != 1),
        room_(at::empty({std::min(from.size(0), rows_max) * std::min(from.size(1), cols_max)},
                        from.options().dtype(at::kFloat))) {}

  /// Returns tile `t` of the factor in fp32, in the memory order (rows or columns) of the factor.
  at::Tensor at(const tile& t) {
    const int64_t times = turned_ ? t.cols : t.rows, count = turned_ ? t.rows : t.cols;
    convert(element(from_, t.row, t.col), core_dtype(from_.scalar_type()), from_.stride(turned_ ? 1 : 0),
            bytes_in(room_), core::dtype::f32, count, times, count);
    const at::Tensor out = room_.narrow(0, 0, times * count).view({times, count});
    return turned_ ? out.t() : out;
  }

 private:
  at::Tensor from_;
  bool turned_;
  at::Tensor room_;
};

void round_tile(const at::Tensor& sum, const tile& t, const at::Tensor& out) {
  const int64_t n = out.size(1);
  convert(bytes_of(sum), core::dtype::f32, t.cols, bytes_in(out) + static_cast<size_t>(t.row * n + t.col) * 2,
          core_dtype(out.scalar_type()), n, t.rows, t.cols);
}

}  // namespace

void widened_product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  widened_factor left(a, widened_rows, widened_depth), right(b, widened_depth, widened_cols);
  const at::Tensor sums =
      at::empty({std::min(m, widened_rows) * std::min(n, widened_cols)}, out.options().dtype(at::kFloat));
  for (int64_t col = 0; col < n; col += widened_cols) {
    const int64_t cols = std::min(widened_cols, n - col);
    const at::Tensor first = bias.defined() ? bias.narrow(0, col, cols).to(at::kFloat) : at::Tensor();
    at::Tensor widened_b;
    for (int64_t row = 0; row < m; row += widened_rows) {
      const int64_t rows = std::min(widened_rows, m - row);
      at::Tensor sum = sums.narrow(0, 0, rows * cols).view({rows, cols});
      for (int64_t deep = 0; deep == 0 || deep < k; deep += widened_depth) {
        const int64_t depth = std::min(widened_depth, k - deep);
        if (row == 0 || k > widened_depth) widened_b = right.at({deep, depth, col, cols});
        const at::Tensor widened_a = left.at({row, rows, deep, depth});
        if (deep == 0) {
          product_out(sum, widened_a, widened_b, first);
        } else {
          add_product_on_cpu(sum, widened_a, widened_b);
        }
      }
      round_tile(sum, {row, rows, col, cols}, out);
    }
  }
}

widened_sums::widened_sums(int64_t m, int64_t n, const at::Tensor& like)
    : m_(m), n_(n), sums_(at::empty({m * n}, like.options().dtype(at::kFloat).requires_grad(false))) {}

// Returns the sums of the tile that begins at (row, col). Tiles are stored one column of tiles after another.
at::Tensor widened_sums::tile_at(int64_t row, int64_t col) const {
  const int64_t rows = std::min(widened_rows, m_ - row), cols = std::min(widened_cols, n_ - col);
  return sums_.narrow(0, m_ * col + row * cols, rows * cols).view({rows, cols});
}

// Adds the product a * b. All sums are kept, so tiles may be computed in any order; in this order, each part of `b` is
// converted once.
void widened_sums::add(const at::Tensor& a, const at::Tensor& b) {
  widened_factor left(a, widened_rows, widened_depth), right(b, widened_depth, widened_cols);
  for (int64_t col = 0; col < n_; col += widened_cols)
    for (int64_t deep = 0; deep < b.size(0); deep += widened_depth) {
      const int64_t depth = std::min(widened_depth, b.size(0) - deep);
      const at::Tensor widened_b = right.at({deep, depth, col, std::min(widened_cols, n_ - col)});
      for (int64_t row = 0; row < m_; row += widened_rows) {
        at::Tensor sum = tile_at(row, col);
        const at::Tensor widened_a = left.at({row, sum.size(0), deep, depth});
        if (empty_ && deep == 0) {
          product_out(sum, widened_a, widened_b);
        } else {
          add_product_on_cpu(sum, widened_a, widened_b);
        }
      }
    }
  empty_ = false;
}

void widened_sums::round_to(at::Tensor& out) const {
  for (int64_t col = 0; col < n_; col += widened_cols)
    for (int64_t row = 0; row < m_; row += widened_rows) {
      const at::Tensor sum = tile_at(row, col);
      round_tile(sum, {row, sum.size(0), col, sum.size(1)}, out);
    }
}

}  // namespace troupe::models
