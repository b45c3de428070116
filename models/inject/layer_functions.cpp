#include "models/inject/layer_functions.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/normalization.h>

#include "core/token_order.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

namespace nn = torch::nn;

kernels::norm_input norm_input_of(const at::Tensor& x, const at::Tensor& weight) {
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

/// Throws if the backward of `layer` runs with create_graph: the kernels' gradients have no history, so a gradient of
/// gradients would lack their part.
void check_first_gradient(const char* layer) {
  TORCH_CHECK(!at::GradMode::is_enabled(), layer,
              " of Troupe's has no gradient of gradients; revert the injection for create_graph");
}

struct norm_function : torch::autograd::Function<norm_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
    const at::Tensor x = given.contiguous(), y = at::empty_like(x);
    const int64_t rows = x.numel() / x.size(-1);
    const at::Tensor mean = wide_numbers(x, rows), rstd = wide_numbers(x, rows);
    kernels_for(x).layer_norm(norm_input_of(x, weight), bytes_of(bias), epsilon, bytes_in(y),
                              {.mean = bytes_in(mean), .rstd = bytes_in(rstd)});
    context->save_for_backward({x, weight, mean, rstd});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    check_first_gradient("a layer norm");
    const auto kept = context->get_saved_variables();
    const at::Tensor &x = kept[0], &weight = kept[1], dy = gradients.front().contiguous(), dx = at::empty_like(x);
    const at::Tensor dw = wide_numbers(x, x.size(-1)), db = wide_numbers(x, x.size(-1));
    kernels_for(x).layer_norm_backward(norm_input_of(x, weight), {.dy = bytes_of(dy), .past = nullptr},
                                       {.mean = bytes_in(kept[2]), .rstd = bytes_in(kept[3])}, bytes_in(dx),
                                       bytes_in(dw), bytes_in(db));
    return {dx, dw.to(weight.scalar_type()), db.to(weight.scalar_type()), {}};
  }
};

struct embedding_function : torch::autograd::Function<embedding_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& weight,
                            const at::Tensor& ids) {
    context->save_for_backward({ids});
    context->saved_data["rows"] = weight.size(0);
    return at::embedding(weight, ids);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    check_first_gradient("an embedding");
    const at::Tensor ids = context->get_saved_variables().front().to(at::kLong).reshape({-1}).contiguous();
    const int64_t vocabulary = context->saved_data["rows"].toInt();
    const at::Tensor& dy = gradients.front();
    const at::Tensor rows = dy.reshape({-1, dy.size(-1)}).contiguous();
    if (!rows.is_cpu())
      return {at::embedding_dense_backward(rows, ids, vocabulary, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false),
              {}};
    const core::token_order order = core::order_of({ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel())});
    const at::Tensor used = at::tensor(order.ids, at::kLong);
    const at::Tensor sums = at::empty({used.numel(), rows.size(1)}, rows.options());
    kernels_for(rows).grouped_sums(bytes_of(rows), core_dtype(rows.scalar_type()), static_cast<uint64_t>(rows.size(1)),
                                   {order.order.data(), order.begin.data(), order.ids.size()}, bytes_in(sums));
    const at::Tensor dw = at::zeros({vocabulary, rows.size(1)}, rows.options());
    dw.index_copy_(0, used, sums);
    return {dw, {}};
  }
};

struct mean_loss_function : torch::autograd::Function<mean_loss_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& targets) {
    const at::Tensor scores = given.contiguous(), log_sums = wide_numbers(scores, scores.size(0));
    const at::Tensor loss = at::empty({}, log_sums.options());
    kernels_for(scores).cross_entropy({}, nullptr, bytes_of(scores), core_dtype(scores.scalar_type()),
                                      static_cast<uint64_t>(scores.size(0)), static_cast<uint64_t>(scores.size(1)),
                                      targets.const_data_ptr<int64_t>(), bytes_in(log_sums), bytes_in(loss));
    context->save_for_backward({scores, targets, log_sums});
    return loss.to(scores.scalar_type());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    check_first_gradient("a cross-entropy");
    const auto kept = context->get_saved_variables();
    const at::Tensor &targets = kept[1], &log_sums = kept[2];
    // The kernel overwrites its argument, and the host owns the scores, so they are copied.
    const at::Tensor dx = kept[0].clone(at::MemoryFormat::Contiguous);
    const at::Tensor wide = gradients.front().to(log_sums.scalar_type()).contiguous();
    const auto rows = static_cast<uint64_t>(dx.size(0)), width = static_cast<uint64_t>(dx.size(1));
    kernels_for(dx).cross_entropy_backward({}, nullptr, bytes_in(dx), core_dtype(dx.scalar_type()), rows, width, width,
                                           targets.const_data_ptr<int64_t>(), bytes_of(log_sums), bytes_of(wide), rows);
    return {dx, {}};
  }
};

}  // namespace

bool under_autocast(const at::Tensor& x) {
  const auto key = x.is_cpu() ? c10::DispatchKey::AutocastCPU : c10::DispatchKey::AutocastCUDA;
  return !c10::impl::tls_is_dispatch_key_excluded(key);
}

at::Tensor own_layer_norm(const nn::Module& module, const at::Tensor& x) {
  const auto& norm = dynamic_cast<const nn::LayerNormImpl&>(module);
  TORCH_CHECK(x.dim() > 0 && x.size(-1) == norm.weight.numel() && x.scalar_type() == norm.weight.scalar_type() &&
                  x.scalar_type() == norm.bias.scalar_type(),
              "a layer norm requires rows of ", norm.weight.numel(), " elements in ", norm.weight.scalar_type(),
              ", got ", x.sizes(), " in ", x.scalar_type());
  if (x.numel() == 0) return at::empty_like(x);
  return norm_function::apply(x, norm.weight.contiguous(), norm.bias.contiguous(), norm.options.eps());
}

at::Tensor own_embedding(const at::Tensor& weight, const at::Tensor& ids) {
  return embedding_function::apply(weight, ids);
}

at::Tensor own_cross_entropy(const at::Tensor& scores, const at::Tensor& targets, int64_t ignore_index) {
  const bool is_plain = scores.dim() == 2 && targets.dim() == 1 && scores.size(0) == targets.size(0) &&
                        scores.numel() > 0 && targets.scalar_type() == at::kLong && !under_autocast(scores);
  const auto is_outside = [&] {
    return targets.lt(0).logical_or(targets.ge(scores.size(1))).logical_or(targets.eq(ignore_index)).any().is_nonzero();
  };
  if (!is_plain || is_outside())
    return at::cross_entropy_loss(scores, targets, {}, at::Reduction::Mean, ignore_index, /*label_smoothing=*/0.0);
  return mean_loss_function::apply(scores, targets.contiguous());
}

}  // namespace troupe::models
