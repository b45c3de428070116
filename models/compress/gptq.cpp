#include "models/compress/gptq.hpp"

#include <ATen/ops/cholesky_inverse.h>
#include <ATen/ops/diagonal.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/mean.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace troupe::models {
namespace {

using checkpoint::affine_grid;

/// Number of columns that are rounded before their errors are applied to all later columns in one product.
constexpr int64_t block_columns = 128;
constexpr float narrowing = 1.0F / 40;
/// Largest number of attempts to make the matrix of products positive definite by damping its diagonal; the damping
/// grows tenfold with each.
constexpr int most_dampings = 6;

/// Returns the order in which columns are rounded: their own order, or, with `act_order`, groups and then columns
/// within a group by descending `diagonal`. A group's columns stay together, so that its grid is chosen once, at its
/// first column.
std::vector<int64_t> order_of(std::span<const double> diagonal, int64_t group, bool act_order) {
  std::vector<int64_t> out(diagonal.size());
  std::iota(out.begin(), out.end(), 0);
  if (!act_order) return out;
  const auto groups = static_cast<int64_t>(diagonal.size()) / group;
  std::vector<double> sums(static_cast<size_t>(groups));
  for (size_t c = 0; c < diagonal.size(); ++c) sums[c / static_cast<size_t>(group)] += diagonal[c];
  std::ranges::stable_sort(out, [&](int64_t a, int64_t b) {
    const auto ga = static_cast<size_t>(a / group), gb = static_cast<size_t>(b / group);
    if (ga != gb) return sums[ga] != sums[gb] ? sums[ga] > sums[gb] : ga < gb;
    return diagonal[static_cast<size_t>(a)] > diagonal[static_cast<size_t>(b)];
  });
  return out;
}

/// Returns the upper triangular matrix u, rounded to fp32, with uᵀu = h⁻¹, for h in fp64. Adds damping to the diagonal
/// of `h` in place. Allocates two more matrices of the size of h.
core::result<at::Tensor> inverse_factor(const at::Tensor& h, double damping) {
  const double mean = h.diagonal().mean().item<double>();
  double added = 0;
  for (int i = 0; i < most_dampings; ++i, damping *= 10) {
    const double wanted = std::max(damping * mean, std::numeric_limits<double>::min());
    h.diagonal().add_(wanted - added);
    added = wanted;
    at::Tensor inverse;
    {
      const auto [lower, info] = at::linalg_cholesky_ex(h);
      if (info.item<int>() != 0) continue;
      inverse = at::cholesky_inverse(lower);
    }
    const auto [upper, failed] = at::linalg_cholesky_ex(inverse, /*upper=*/true);
    if (failed.item<int>() == 0) return upper.to(at::kFloat);
  }
  return fail(error_kind::numeric, "the matrix of products of its inputs is not positive definite, even with damping");
}

int32_t code_of(const affine_grid& g, float x) {
  if (g.scale == 0) return std::clamp(0, g.low, g.high);
  const float q = std::nearbyint((x - g.offset) / g.scale);
  return static_cast<int32_t>(std::clamp(q, static_cast<float>(g.low), static_cast<float>(g.high)));
}
float value_of(const affine_grid& g, int32_t q) { return g.scale * static_cast<float>(q) + g.offset; }

/// Returns the quantisation grid that has the least squared error of `values`, weighted by `importance`, among the grid
/// for these values and those for the values times 1 - i / 40, i = 1 to `narrower`.
core::result<affine_grid> best_grid(const checkpoint::stored_form& form, std::span<const float> values,
                                    std::span<const float> importance, int narrower) {
  affine_grid best;
  double least = std::numeric_limits<double>::infinity();
  std::vector<float> scaled(values.size());
  for (int i = 0; i <= narrower; ++i) {
    const float by = 1 - narrowing * static_cast<float>(i);
    std::ranges::transform(values, scaled.begin(), [&](float v) { return v * by; });
    TROUPE_ASSIGN(const auto grid, form.fit(scaled));
    double error = 0;
    for (size_t c = 0; c < values.size(); ++c) {
      const double e = static_cast<double>(value_of(grid, code_of(grid, values[c])) - values[c]);
      error += e * e * static_cast<double>(importance[c]);
    }
    if (!(error < least)) continue;
    least = error;
    best = grid;
  }
  return best;
}

/// Rounds one weight matrix column by column, in the order `order`, and compensates the error of each column in the
/// columns after it. Stores the matrix transposed, so that a column is contiguous.
class solver {
 public:
  solver(const at::Tensor& w, const std::vector<int64_t>& order, const at::Tensor& factor,
         const checkpoint::stored_form& form, const gptq_options& options)
      : order_(order),
        factor_(factor.contiguous()),
        form_(form),
        options_(options),
        rows_(w.size(0)),
        columns_(w.size(1)),
        group_(static_cast<int64_t>(form.group())) {
    const at::Tensor index = at::empty({columns_}, at::kLong);
    std::ranges::copy(order, index.mutable_data_ptr<int64_t>());
    work_ = w.t().index_select(0, index).contiguous();
    out_.grids.resize(static_cast<size_t>(rows_ * (columns_ / group_)));
    out_.q.resize(static_cast<size_t>(rows_ * columns_));
    out_.values = at::empty({rows_, columns_}, at::kFloat);
  }

  core::result<gptq_codes> run() {
    const int64_t step = group_ <= block_columns ? block_columns / group_ * group_ : block_columns;
    for (int64_t first = 0; first < columns_; first += step) TROUPE_TRY(block(first, std::min(step, columns_ - first)));
    return std::move(out_);
  }

 private:
  core::result<void> block(int64_t first, int64_t count) {
    const at::Tensor part = work_.narrow(0, first, count), errors = at::empty({count, rows_}, at::kFloat);
    const auto* u = factor_.const_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = first + i;
      if (at % group_ == 0) TROUPE_TRY(choose_grids(at));
      const at::Tensor error = errors.select(0, i);
      round_column(at, u[at * columns_ + at], error);
      if (i + 1 < count)
        part.narrow(0, i + 1, count - i - 1)
            .addr_(factor_.select(0, at).narrow(0, at + 1, count - i - 1), error, 1, -1);
    }
    const int64_t behind = first + count;
    if (behind < columns_)
      work_.narrow(0, behind, columns_ - behind)
          .addmm_(factor_.narrow(0, first, count).narrow(1, behind, columns_ - behind).t(), errors, 1, -1);
    return {};
  }

  /// Chooses the grid of each row for the group whose columns begin at position `at` of the order, from the columns'
  /// current values.
  core::result<void> choose_grids(int64_t at) {
    const auto* w = work_.const_data_ptr<float>();
    const auto* u = factor_.const_data_ptr<float>();
    const int64_t group = order_[static_cast<size_t>(at)] / group_, begin = group * group_;
    std::vector<float> values(static_cast<size_t>(group_)), importance(values.size());
    for (int64_t i = at; i < at + group_; ++i) {
      const float d = u[i * columns_ + i];
      importance[static_cast<size_t>(order_[static_cast<size_t>(i)] - begin)] = 1 / (d * d);
    }
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t i = at; i < at + group_; ++i)
        values[static_cast<size_t>(order_[static_cast<size_t>(i)] - begin)] = w[i * rows_ + r];
      TROUPE_ASSIGN(auto grid, best_grid(form_, values, importance, options_.narrower_grids));
      out_.grids[static_cast<size_t>(r * (columns_ / group_) + group)] = grid;
    }
    return {};
  }

  void round_column(int64_t at, float diagonal, const at::Tensor& error) {
    const auto* w = work_.const_data_ptr<float>() + at * rows_;
    auto* e = error.mutable_data_ptr<float>();
    auto* values = out_.values.mutable_data_ptr<float>();
    const int64_t column = order_[static_cast<size_t>(at)], groups = columns_ / group_;
    for (int64_t r = 0; r < rows_; ++r) {
      const auto& grid = out_.grids[static_cast<size_t>(r * groups + column / group_)];
      const int32_t q = code_of(grid, w[r]);
      const float value = value_of(grid, q);
      out_.q[static_cast<size_t>(r * columns_ + column)] = static_cast<int16_t>(q);
      values[r * columns_ + column] = value;
      e[r] = (w[r] - value) / diagonal;
    }
  }

  const std::vector<int64_t>& order_;
  at::Tensor factor_;
  const checkpoint::stored_form& form_;
  const gptq_options& options_;
  int64_t rows_, columns_, group_;
  at::Tensor work_;  // weight (in, out), columns in the order of rounding, including the compensation of errors so far
  gptq_codes out_;
};

}  // namespace

core::result<gptq_codes> gptq(const at::Tensor& w, const at::Tensor& products, const checkpoint::stored_form& form,
                              const gptq_options& options) {
  std::vector<double> diagonal(static_cast<size_t>(products.size(0)));
  {
    const at::Tensor of_products = products.diagonal().to(at::kDouble).contiguous();
    std::copy_n(of_products.const_data_ptr<double>(), diagonal.size(), diagonal.begin());
  }
  const auto order = order_of(diagonal, static_cast<int64_t>(form.group()), options.act_order);
  const at::Tensor index = at::empty({products.size(0)}, at::kLong);
  std::ranges::copy(order, index.mutable_data_ptr<int64_t>());
  at::Tensor h = products.index_select(0, index).index_select(1, index).to(at::kDouble);
  for (size_t i = 0; i < order.size(); ++i)
    if (diagonal[static_cast<size_t>(order[i])] == 0)
      h.select(0, static_cast<int64_t>(i)).select(0, static_cast<int64_t>(i)).fill_(1);
  TROUPE_ASSIGN(const auto factor, inverse_factor(h, options.damping));
  h.reset();
  return solver(w, order, factor, form, options).run();
}

}  // namespace troupe::models
