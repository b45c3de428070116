#include "models/layers/row_panels.hpp"

#include <algorithm>
#include <utility>

#include "models/layers/products.hpp"
#include "models/table/row_tiles.hpp"

namespace troupe::models {
namespace {

constexpr auto panel = static_cast<int64_t>(panel_rows);

/// Calls f(first, count) for each panel of `rows`.
template <class F>
void for_each_panel(int64_t rows, F f) {
  for (int64_t first = 0; first < rows; first += panel) f(first, std::min(panel, rows - first));
}

}  // namespace

void panel_product_out(at::Tensor& out, const at::Tensor& rows, const at::Tensor& b, const at::Tensor& bias) {
  for_each_panel(rows.size(0), [&](int64_t first, int64_t count) {
    at::Tensor part = out.narrow(0, first, count);
    product_out(part, rows.narrow(0, first, count), b, bias);
  });
}

row_sums::row_sums(at::Tensor out, int64_t rows) : out_(std::move(out)), rows_(rows) {
  if (rows > panel && out_.scalar_type() != at::kFloat && out_.scalar_type() != at::kDouble)
    wide_.emplace(out_.size(0), out_.size(1), out_);
}

void row_sums::add(const at::Tensor& left, const at::Tensor& right) {
  for_each_panel(left.size(0), [&](int64_t first, int64_t count) {
    const at::Tensor a = left.narrow(0, first, count).t(), b = right.narrow(0, first, count);
    if (wide_) {
      wide_->add(a, b);
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
  wide_.reset();
}

}  // namespace troupe::models
