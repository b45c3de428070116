#include "models/compress/input_statistics.hpp"

#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

namespace troupe::models {

const input_sums* sums_of(const std::vector<input_sums>& all, uint32_t weight) {
  for (const auto& i : all)
    if (std::ranges::find(i.weights, weight) != i.weights.end()) return &i;
  return nullptr;
}

void input_statistics::takes(uint32_t weight, const at::Tensor& rows) {
  if (!options_.only.empty() && std::ranges::find(options_.only, weight) == options_.only.end()) return;
  if (last_.defined() && rows.const_data_ptr() == last_.const_data_ptr()) {
    auto& of = inputs_[last_input_].weights;
    if (std::ranges::find(of, weight) == of.end()) of.push_back(weight);
    return;
  }
  last_ = rows;
  const auto known = std::ranges::find_if(
      inputs_, [&](const input_sums& i) { return std::ranges::find(i.weights, weight) != i.weights.end(); });
  last_input_ = static_cast<size_t>(known - inputs_.begin());
  const int64_t columns = rows.size(1);
  if (known == inputs_.end()) {
    const auto none = at::zeros({columns}, at::kFloat);
    const auto pairs = [&](bool wanted) { return wanted ? at::zeros({columns, columns}, at::kFloat) : at::Tensor(); };
    inputs_.push_back({.weights = {weight},
                       .rows = 0,
                       .products = pairs(options_.wants_products),
                       .drift = pairs(options_.original != nullptr),
                       .squares = none.clone(),
                       .magnitude = none.clone(),
                       .largest = none.clone()});
  }
  auto& to = inputs_[last_input_];
  const at::Tensor x = rows.to(at::kFloat), size = x.abs();
  to.rows += static_cast<uint64_t>(rows.size(0));
  to.squares.add_(x.square().sum(0));
  to.magnitude.add_(size.sum(0));
  to.largest = at::maximum(to.largest, size.amax(0));
  if (to.products.defined()) to.products.addmm_(x.t(), x);
  if (to.drift.defined()) to.drift.addmm_(options_.original->rows(weight).to(at::kFloat).sub(x).t(), x);
}

}  // namespace troupe::models
