#include "models/compress/refit.hpp"

#include <ATen/ops/cholesky_solve.h>
#include <ATen/ops/diagonal.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/mean.h>

#include <algorithm>
#include <limits>

namespace troupe::models {

core::result<at::Tensor> refitted(const at::Tensor& w, const at::Tensor& missing, const at::Tensor& products,
                                  double damping) {
  at::Tensor lower;
  {
    const at::Tensor h = products.to(at::kDouble);
    const double mean = h.diagonal().mean().item<double>();
    h.diagonal().add_(std::max(damping * mean, std::numeric_limits<double>::min()));
    const auto [factor, info] = at::linalg_cholesky_ex(h);
    if (info.item<int>() != 0)
      return core::fail(core::error_kind::numeric, "the matrix of products of its inputs is not positive definite");
    lower = factor;
  }
  return at::cholesky_solve(missing.t().to(at::kDouble), lower).t().to(at::kFloat).add_(w).contiguous();
}

}  // namespace troupe::models
