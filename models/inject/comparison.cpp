#include "models/inject/comparison.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace troupe::models {
namespace {

at::Tensor dense(const at::Tensor& t) { return t.is_sparse() ? t.to_dense() : t; }

double largest_in(const at::Tensor& t) {
  return t.defined() && t.numel() > 0 ? dense(t).abs().max().to(at::kDouble).item<double>() : 0;
}

}  // namespace

at::Tensor usual_direction(int64_t elements, const at::TensorOptions& options) {
  return at::arange(1, elements + 1, options.requires_grad(false)).sin();
}

named_tensors results_of(const at::Tensor& y, const named_tensors& of, const at::Tensor& direction) {
  named_tensors out = {{"its output", y.detach()}};
  std::vector<at::Tensor> wanted;
  for (const auto& [name, t] : of) wanted.push_back(t);
  if (wanted.empty() || !y.requires_grad()) return out;
  const at::Tensor along = direction.defined() ? direction : usual_direction(y.numel(), y.options()).view(y.sizes());
  const auto gradients = torch::autograd::grad({y}, wanted, {along}, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < of.size(); ++i) out.emplace_back("the gradient of " + of[i].first, gradients[i]);
  return out;
}

std::optional<std::pair<std::string, double>> first_difference(const named_tensors& got, const named_tensors& wanted) {
  if (got.size() != wanted.size()) return std::pair(std::string("the number of its gradients"), 1.0);
  double most = 0;
  for (size_t i = 1; i < wanted.size(); ++i) most = std::max(most, largest_in(wanted[i].second));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor &mine = got[i].second, &theirs = wanted[i].second;
    if (!mine.defined() && !theirs.defined()) continue;
    if (mine.defined() && theirs.defined() && mine.sizes() != theirs.sizes()) return std::pair(wanted[i].first, 1.0);
    const at::Tensor apart = !mine.defined() ? theirs : !theirs.defined() ? mine : dense(mine) - dense(theirs);
    const double scale = std::max(largest_in(theirs), i > 0 ? most / 10 : 0), by = largest_in(apart);
    if (scale > 0 ? !(by <= largest_difference * scale) : !(by <= 0))
      return std::pair(wanted[i].first, scale > 0 ? by / scale : by);
  }
  return std::nullopt;
}

}  // namespace troupe::models
