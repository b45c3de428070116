// Layer norm and RMS norm, their weights' gradients written straight to their buckets.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels/cast.hpp"
#include "kernels/row_norm.hpp"
#include "models/bytes.hpp"
#include "models/function_node.hpp"
#include "models/functions.hpp"
#include "models/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// `x` is contiguous and outlives the result.
kernels::norm_input input_of(const at::Tensor& x, const weight& w) {
  const at::Tensor& factors = w.bound();
  TORCH_CHECK(factors.scalar_type() == x.scalar_type() && factors.numel() == x.size(-1), "norm ", w.name, ": ",
              factors.numel(), " weights of type ", factors.scalar_type(), " for rows of ", x.size(-1), " elements of ",
              x.scalar_type());
  const auto width = static_cast<uint64_t>(x.size(-1));
  return {.x = bytes_of(x),
          .weight = bytes_of(factors),
          .type = core_dtype(x.scalar_type()),
          .rows = width == 0 ? 0 : static_cast<uint64_t>(x.numel()) / width,
          .width = width};
}

/// Numbers in the type that sums are formed in.
at::Tensor wide_numbers(const at::Tensor& like, int64_t count) {
  return at::empty({count}, like.options().dtype(sum_dtype(like.scalar_type())).requires_grad(false));
}

int64_t rows_of(const at::Tensor& x) { return x.numel() / x.size(-1); }

void write(const sink_slot& slot, const weight& parameter, const at::Tensor& gradient) {
  gradient_writer writer(slot, parameter);
  at::Tensor& out = writer.out();
  kernels::cast(bytes_of(gradient), core_dtype(gradient.scalar_type()), bytes_in(out), core_dtype(out.scalar_type()),
                static_cast<uint64_t>(out.numel()));
  writer.commit();
}

/// The gradients of a norm's output and, where defined, of what went past it; and the input's.
struct reached {
  at::Tensor dy, past, dx;

  explicit reached(torch::autograd::variable_list& gradients) : dy(taken(gradients[0])) {
    if (gradients[1].defined()) past = taken(gradients[1]);
    dx = in_place_of(dy);
  }
  [[nodiscard]] kernels::norm_gradient gradient() const {
    return {.dy = bytes_of(dy), .past = past.defined() ? bytes_of(past) : nullptr};
  }
};

/// Output and input with `node` as their history.
normed_rows with_past(const segment_scope& scope, at::Tensor y, const at::Tensor& x,
                      std::shared_ptr<function_node> node) {
  std::vector<at::Tensor> outputs{std::move(y), x.detach()};
  node->slot = scope.slot();
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(outputs, node);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

struct layer_norm_node final : function_node {
  at::Tensor x, mean, rstd;
  weight w, bias;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const reached at_input(gradients);
    const at::Tensor dw = wide_numbers(x, x.size(-1)), db = wide_numbers(x, x.size(-1));
    const auto in = input_of(x, w);
    if (x.scalar_type() == at::kDouble) {
      kernels::layer_norm_backward_reference(in, at_input.gradient(), mean.const_data_ptr<double>(),
                                             rstd.const_data_ptr<double>(), bytes_in(at_input.dx),
                                             dw.mutable_data_ptr<double>(), db.mutable_data_ptr<double>());
    } else {
      kernels::layer_norm_backward(in, at_input.gradient(), mean.const_data_ptr<float>(), rstd.const_data_ptr<float>(),
                                   bytes_in(at_input.dx), dw.mutable_data_ptr<float>(), db.mutable_data_ptr<float>());
    }
    write(*slot, w, dw);
    write(*slot, bias, db);
    return {at_input.dx};
  }
  void release_variables() override {
    x.reset();
    mean.reset();
    rstd.reset();
  }
  [[nodiscard]] std::string name() const override { return "layer_norm"; }
};

struct rms_norm_node final : function_node {
  at::Tensor x, rstd;
  weight w;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const reached at_input(gradients);
    const at::Tensor dw = wide_numbers(x, x.size(-1));
    const auto in = input_of(x, w);
    if (x.scalar_type() == at::kDouble) {
      kernels::rms_norm_backward_reference(in, at_input.gradient(), rstd.const_data_ptr<double>(),
                                           bytes_in(at_input.dx), dw.mutable_data_ptr<double>());
    } else {
      kernels::rms_norm_backward(in, at_input.gradient(), rstd.const_data_ptr<float>(), bytes_in(at_input.dx),
                                 dw.mutable_data_ptr<float>());
    }
    write(*slot, w, dw);
    return {at_input.dx};
  }
  void release_variables() override {
    x.reset();
    rstd.reset();
  }
  [[nodiscard]] std::string name() const override { return "rms_norm"; }
};

}  // namespace

normed_rows layer_norm(const segment_scope& scope, const at::Tensor& x, const weight& w, const weight& bias,
                       double epsilon) {
  at::Tensor in, y, mean, rstd;
  {
    const below_autograd plain;
    in = x.detach().contiguous();
    y = at::empty_like(in);
    mean = wide_numbers(in, rows_of(in));
    rstd = wide_numbers(in, rows_of(in));
    if (in.scalar_type() == at::kDouble) {
      kernels::layer_norm_reference(input_of(in, w), bytes_of(bias.bound()), epsilon, bytes_in(y),
                                    mean.mutable_data_ptr<double>(), rstd.mutable_data_ptr<double>());
    } else {
      kernels::layer_norm(input_of(in, w), bytes_of(bias.bound()), epsilon, bytes_in(y), mean.mutable_data_ptr<float>(),
                          rstd.mutable_data_ptr<float>());
    }
  }
  if (!wants_node(x)) return {y, x};
  auto node = std::make_shared<layer_norm_node>();
  node->x = std::move(in);
  node->mean = std::move(mean);
  node->rstd = std::move(rstd);
  node->w = w;
  node->bias = bias;
  return with_past(scope, std::move(y), x, std::move(node));
}

normed_rows rms_norm(const segment_scope& scope, const at::Tensor& x, const weight& w, double epsilon) {
  at::Tensor in, y, rstd;
  {
    const below_autograd plain;
    in = x.detach().contiguous();
    y = at::empty_like(in);
    rstd = wide_numbers(in, rows_of(in));
    if (in.scalar_type() == at::kDouble) {
      kernels::rms_norm_reference(input_of(in, w), epsilon, bytes_in(y), rstd.mutable_data_ptr<double>());
    } else {
      kernels::rms_norm(input_of(in, w), epsilon, bytes_in(y), rstd.mutable_data_ptr<float>());
    }
  }
  if (!wants_node(x)) return {y, x};
  auto node = std::make_shared<rms_norm_node>();
  node->x = std::move(in);
  node->rstd = std::move(rstd);
  node->w = w;
  return with_past(scope, std::move(y), x, std::move(node));
}

}  // namespace troupe::models
