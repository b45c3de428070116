#include "models/layers/joined_norms.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "models/segment/function_node.hpp"
#include "models/segment/projection.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Returns the type in which sums over elements of `x` are formed.
at::ScalarType sum_type_of(const at::Tensor& x) { return sum_dtype(x.scalar_type()); }

/// Returns how many elements of the type of `x` have the bits of one sum.
int64_t elements_of_sum(const at::Tensor& x) {
  return static_cast<int64_t>(c10::elementSize(sum_type_of(x)) / x.itemsize());
}

/// Returns the sum of each row of `x` (N, C), shape (N, 1).
at::Tensor row_sums_of(const at::Tensor& x) { return x.sum(-1, /*keepdim=*/true); }

/// Autograd node of square_sums(). Half of a sum of squares has the gradient x times that of the sum.
struct square_sums_node final : function_node {
  queries_and_keys<at::Tensor> x;  // (N, own width)
  queries_and_keys<std::vector<int64_t>> shapes;

  gradient_list apply(gradient_list&& gradients) override {
    gradient_list out;
    const at::Tensor& of_sums = gradients[0];
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t place = static_cast<int64_t>(i) * elements_of_sum(x[i]);
      out.push_back(x[i].mul(of_sums.select(1, place).unsqueeze(1)).view(shapes[i]));
    }
    return out;
  }
  void release_variables() override { x = {}; }
  [[nodiscard]] std::string name() const override { return "square_sums"; }
};

/// Autograd node of joined_norms(). With y = w n, n = x r and r the reciprocal root of the mean square of a row, the
/// gradient of x is r w dy, less n r times the mean of w dy n over all ranks. The second part is passed on through the
/// sums: their gradient is -r^2 times the part of that mean that this rank's elements have.
struct joined_norms_node final : function_node {
  queries_and_keys<at::Tensor> x, rstd;  // (N, own width) and (N, 1)
  queries_and_keys<row_norm> norms;
  queries_and_keys<uint64_t> widths{};
  std::vector<int64_t> shape_of_sums;

  gradient_list apply(gradient_list&& gradients) override {
    gradient_list out;
    at::Tensor of_sums = at::zeros(shape_of_sums, x[0].options().requires_grad(false));
    for (size_t i = 0; i < x.size(); ++i) {
      const at::ScalarType wide = sum_type_of(x[i]);
      const auto shape = gradients[i].sizes().vec();
      const at::Tensor dy = as_rows(taken(gradients[i])).to(wide), normed = x[i].to(wide).mul(rstd[i]);
      write_gradient(*slot, norms[i].w, dy.mul(normed).sum(0));
      const at::Tensor scaled = dy.mul(factors(i, wide));
      const at::Tensor mean = row_sums_of(scaled.mul(normed)).div(static_cast<double>(widths[i]));
      const int64_t place = static_cast<int64_t>(i) * elements_of_sum(x[i]);
      of_sums.select(2, place).copy_(mean.mul(rstd[i]).mul(rstd[i]).neg().squeeze(1));
      out.push_back(scaled.mul(rstd[i]).to(x[i].scalar_type()).view(shape));
    }
    out.push_back(std::move(of_sums));
    return out;
  }
  void release_variables() override { x = rstd = {}; }
  [[nodiscard]] std::string name() const override { return "joined_norms"; }

  [[nodiscard]] at::Tensor factors(size_t i, at::ScalarType wide) const {
    return norms[i].w.bound().to(wide).add(norms[i].numbers.shift);
  }
  /// Returns y, (N, own width); sets `rstd` from the sums of all ranks.
  at::Tensor forward(size_t i, const at::Tensor& sums) {
    const at::ScalarType wide = sum_type_of(x[i]);
    const auto number = static_cast<int64_t>(i);
    at::Tensor all = sums.select(0, 0).view(wide).select(1, number).clone();
    for (int64_t rank = 1; rank < sums.size(0); ++rank) all.add_(sums.select(0, rank).view(wide).select(1, number));
    const at::Tensor mean = all.mul(2 / static_cast<double>(widths[i]));
    rstd[i] = mean.add(norms[i].numbers.epsilon).rsqrt().unsqueeze(1);
    return x[i].to(wide).mul(rstd[i]).mul(factors(i, wide)).to(x[i].scalar_type());
  }
};

}  // namespace

at::Tensor square_sums(const segment_scope& scope, const queries_and_keys<at::Tensor>& x) {
  auto node = std::make_shared<square_sums_node>();
  at::Tensor out;
  {
    const below_autograd plain;
    for (size_t i = 0; i < x.size(); ++i) {
      node->x[i] = as_rows(x[i].detach());
      node->shapes[i] = x[i].sizes().vec();
    }
    const at::ScalarType wide = sum_type_of(x[0]);
    const at::Tensor sums = at::empty({node->x[0].size(0), static_cast<int64_t>(x.size())},
                                      x[0].options().dtype(wide).requires_grad(false));
    for (size_t i = 0; i < x.size(); ++i)
      sums.select(1, static_cast<int64_t>(i)).copy_(row_sums_of(node->x[i].to(wide).square()).squeeze(1).mul(0.5));
    out = sums.view(x[0].scalar_type());
  }
  if (wants_node(x[0], x[1])) attach({&out}, std::move(node), scope, {x[0], x[1]});
  return out;
}

queries_and_keys<at::Tensor> joined_norms(const segment_scope& scope, const queries_and_keys<at::Tensor>& x,
                                          const at::Tensor& sums, const queries_and_keys<row_norm>& norms,
                                          const queries_and_keys<uint64_t>& widths) {
  auto node = std::make_shared<joined_norms_node>();
  node->norms = norms;
  node->widths = widths;
  node->shape_of_sums = sums.sizes().vec();
  queries_and_keys<at::Tensor> out;
  {
    const below_autograd plain;
    const at::Tensor given = sums.detach();
    for (size_t i = 0; i < x.size(); ++i) {
      node->x[i] = as_rows(x[i].detach());
      out[i] = like_rows_of(node->forward(i, given), x[i]);
    }
  }
  if (wants_node(x[0], x[1], sums)) attach({&out[0], &out[1]}, std::move(node), scope, {x[0], x[1], sums});
  return out;
}

}  // namespace troupe::models
