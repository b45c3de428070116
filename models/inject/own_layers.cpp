#include "models/inject/own_layers.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <map>
#include <set>
#include <utility>

#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

namespace nn = torch::nn;

kernels::norm_input rows_of(const at::Tensor& x, const at::Tensor& weight) {
  const int64_t width = x.size(-1);
  return {.x = bytes_of(x),
          .weight = bytes_of(weight),
          .type = core_dtype(x.scalar_type()),
          .rows = static_cast<uint64_t>(x.numel() / width),
          .width = static_cast<uint64_t>(width)};
}

at::Tensor wide_numbers(const at::Tensor& like, int64_t count) {
  return at::empty({count}, like.options().dtype(sum_dtype(like.scalar_type())));
}

struct norm_function : torch::autograd::Function<norm_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
    const at::Tensor x = given.contiguous(), y = at::empty_like(x);
    const int64_t rows = x.numel() / x.size(-1);
    const at::Tensor mean = wide_numbers(x, rows), rstd = wide_numbers(x, rows);
    kernels_for(x).layer_norm(rows_of(x, weight), bytes_of(bias), epsilon, bytes_in(y),
                              {.mean = bytes_in(mean), .rstd = bytes_in(rstd)});
    context->save_for_backward({x, weight, mean, rstd});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto kept = context->get_saved_variables();
    const at::Tensor &x = kept[0], &weight = kept[1], dy = gradients.front().contiguous(), dx = at::empty_like(x);
    const at::Tensor dw = wide_numbers(x, x.size(-1)), db = wide_numbers(x, x.size(-1));
    kernels_for(x).layer_norm_backward(rows_of(x, weight), {.dy = bytes_of(dy), .past = nullptr},
                                       {.mean = bytes_in(kept[2]), .rstd = bytes_in(kept[3])}, bytes_in(dx),
                                       bytes_in(dw), bytes_in(db));
    return {dx, dw.to(weight.scalar_type()), db.to(weight.scalar_type()), {}};
  }
};

/// A layer norm that replaces an entry of a torch Sequential and computes by Troupe's kernels. Derived from torch's
/// type for hosts that request that type from the Sequential; its weights are those of the host's layer, which stays
/// registered.
struct own_norm : nn::LayerNormImpl {
  explicit own_norm(const nn::LayerNormImpl& of)
      : nn::LayerNormImpl(nn::LayerNormOptions(of.options).elementwise_affine(false)) {
    options = of.options;
    weight = of.weight;
    bias = of.bias;
  }
  at::Tensor forward(const at::Tensor& x) { return own_layer_norm(*this, x); }
};

/// Returns the reason why Troupe's layers cannot replace a module; empty if they can.
std::string obstacle_of(const nn::Module& m) {
  const auto* norm = dynamic_cast<const nn::LayerNormImpl*>(&m);
  if (norm == nullptr) return "Troupe has no separate kernel for it";
  if (norm->options.normalized_shape().size() != 1) return "a norm over several dimensions";
  if (!norm->weight.defined() || !norm->bias.defined()) return "a norm without weight and bias";
  return "";
}

}  // namespace

at::Tensor own_layer_norm(const nn::Module& module, const at::Tensor& x) {
  const auto& norm = dynamic_cast<const nn::LayerNormImpl&>(module);
  TORCH_CHECK(x.dim() > 0 && x.size(-1) == norm.weight.numel() && x.scalar_type() == norm.weight.scalar_type() &&
                  x.scalar_type() == norm.bias.scalar_type(),
              "a layer norm requires rows of ", norm.weight.numel(), " elements in ", norm.weight.scalar_type(),
              ", got ", x.sizes(), " in ", x.scalar_type());
  if (x.numel() == 0) return at::empty_like(x);
  return norm_function::apply(x, norm.weight.contiguous(), norm.bias.contiguous(), norm.options.eps());
}

own_layers::own_layers(const std::shared_ptr<nn::Module>& tree, bool is_called_alone) : tree_(tree) {
  if (tree == nullptr) return;
  // Entries of Sequentials, which are called without knowing their type and can be replaced.
  std::map<const nn::Module*, nn::AnyModule*> entries;
  std::set<const nn::Module*> seen;
  const auto modules = tree->named_modules();
  for (const auto& item : modules)
    if (auto* s = dynamic_cast<nn::SequentialImpl*>(item.value().get()))
      for (nn::AnyModule& entry : *s) entries.emplace(entry.ptr().get(), &entry);
  for (const auto& item : modules) {
    const auto& module = item.value();
    if (!seen.insert(module.get()).second || module->named_parameters(/*recurse=*/false).is_empty()) continue;
    layer out{item.key(), obstacle_of(*module)};
    const auto entry = entries.find(module.get());
    const auto norm = std::dynamic_pointer_cast<nn::LayerNormImpl>(module);
    if (out.why.empty() && module == tree && is_called_alone)
      forward_ = [norm](const at::Tensor& x) { return own_layer_norm(*norm, x); };
    else if (out.why.empty() && entry != entries.end())
      places_.push_back({entry->second, std::make_shared<nn::AnyModule>(std::make_shared<own_norm>(*norm)),
                         std::make_shared<nn::AnyModule>(*entry->second)});
    else if (out.why.empty())
      out.why = "its module calls it directly, not through a Sequential";
    layers_.push_back(std::move(out));
  }
}

void own_layers::sit() {
  sits_ = true;
  for (const place& p : places_) *p.entry = *p.own;
}

void own_layers::revert() {
  if (!std::exchange(sits_, false)) return;
  for (const place& p : places_) *p.entry = *p.original;
}

}  // namespace troupe::models
