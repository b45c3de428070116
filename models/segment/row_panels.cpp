#include "models/segment/row_panels.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>

#include "models/segment/operations.hpp"
#include "models/segment/products.hpp"
#include "models/segment/torch_values.hpp"
#include "models/table/row_tiles.hpp"

namespace troupe::models {
namespace {

/// True if the device of `x` has no fixed panel size: all rows of one call are then a single panel.
bool is_one_panel(const at::Tensor& x) { return operations_for(x).panel_rows == 0; }

/// Returns the number of rows (a panel) that the device of `x` multiplies at once: its fixed number, or `rows`, all
/// rows of the call, if it has none.
int64_t panel_of(const at::Tensor& x, int64_t rows) {
  const int64_t panel = operations_for(x).panel_rows;
  return panel == 0 ? std::max<int64_t>(rows, 1) : panel;
}

/// Calls f(first, count) for each panel of rows of `x`: rows [first, first + count).
void for_each_panel(const at::Tensor& x, auto f) {
  const int64_t rows = x.size(0), panel = panel_of(x, rows);
  for (int64_t first = 0; first < rows; first += panel) f(first, std::min(panel, rows - first));
}

}  // namespace

void panel_product_out(at::Tensor& out, const at::Tensor& rows, const at::Tensor& b, const at::Tensor& bias) {
  for_each_panel(rows, [&](int64_t first, int64_t count) {
    at::Tensor part = out.narrow(0, first, count);
    product_out(part, rows.narrow(0, first, count), b, bias);
  });
}

row_sums::row_sums(at::Tensor out, int64_t rows, panel_sums how) : out_(std::move(out)), rows_(rows), how_(how) {
  if (!is_one_panel(out_)) begin(rows);
}

void row_sums::begin(int64_t first_rows) {
  const at::ScalarType type = out_.scalar_type();
  const int64_t panel = panel_of(out_, first_rows);
  if (rows_ <= panel || type == at::kFloat || type == at::kDouble) return;
  const int64_t m = out_.size(0), n = out_.size(1);
  if (is_one_panel(out_)) {
    sums_ = at::empty({m, n}, out_.options().dtype(at::kFloat)).zero_();
  } else if (how_ == panel_sums::wide || products_by(type, m, panel, n) == product_library::widened) {
    wide_.emplace(m, n, out_);
  } else {
    rounded_ = at::empty({m, n}, out_.options().dtype(at::kFloat));
  }
}

void row_sums::add(const at::Tensor& left, const at::Tensor& right) {
  if (added_ == 0 && is_one_panel(out_)) begin(left.size(0));
  for_each_panel(left, [&](int64_t first, int64_t count) {
    const at::Tensor a = left.narrow(0, first, count).t(), b = right.narrow(0, first, count);
    if (wide_) {
      wide_->add(a, b);
    } else if (sums_.defined()) {
      add_product(sums_, a, b);
    } else if (rounded_.defined()) {
      product_out(out_, a, b);
      const std::byte* const of_panel = bytes_of(out_);
      const core::dtype type = core_dtype(out_.scalar_type());
      kernels_for(out_).sum_in_rank_order({&of_panel, 1}, bytes_in(rounded_), count_of(out_),
                                          {.input = type, .communication = type, .accumulate = added_ > 0});
    } else if (added_ == 0) {
      product_out(out_, a, b);
    } else {
      add_product(out_, a, b);
    }
    added_ += count;
  });
}

void row_sums::finish() {
  TORCH_CHECK(added_ == rows_, "sums over ", rows_, " rows were formed of ", added_);
  if (wide_) wide_->round_to(out_);
  if (rounded_.defined()) out_.copy_(rounded_);
  if (sums_.defined()) out_.copy_(sums_);
  wide_.reset();
  rounded_.reset();
  sums_.reset();
}

void sum_columns(const at::Tensor& g, const at::Tensor& out) {
  kernels_for(g).column_sums(bytes_of(g), core_dtype(g.scalar_type()), static_cast<uint64_t>(g.size(0)),
                             static_cast<uint64_t>(g.size(1)), static_cast<uint64_t>(g.stride(0)), bytes_in(out),
                             core_dtype(out.scalar_type()));
}

column_sums::column_sums(at::Tensor out, int64_t rows) : out_(std::move(out)), rows_(rows) {
  if (!is_one_panel(out_)) begin(rows);
}

void column_sums::begin(int64_t first_rows) {
  if (rows_ > panel_of(out_, first_rows))
    sums_ = at::empty(out_.sizes(), out_.options().dtype(sum_dtype(out_.scalar_type())));
}

void column_sums::add(const at::Tensor& g) {
  if (added_ == 0 && is_one_panel(out_)) begin(g.size(0));
  for_each_panel(g, [&](int64_t first, int64_t count) {
    const at::Tensor rows = g.narrow(0, first, count);
    if (!sums_.defined()) {
      sum_columns(rows, out_);
    } else if (added_ == 0) {
      sum_columns(rows, sums_);
    } else {
      const at::Tensor of_panel = at::empty_like(sums_);
      sum_columns(rows, of_panel);
      sums_.add_(of_panel);
    }
    added_ += count;
  });
}

void column_sums::finish() {
  TORCH_CHECK(added_ == rows_, "sums of the columns of ", rows_, " rows were formed of ", added_);
  if (sums_.defined()) out_.copy_(sums_);
  sums_.reset();
}

}  // namespace troupe::models
