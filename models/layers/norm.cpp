#include "models/layers/norm.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <utility>

#include "kernels/cast.hpp"
#include "kernels/row_norm.hpp"
#include "models/layers/bytes.hpp"
#include "models/layers/function_node.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// `x` outlives the result.
kernels::norm_input input_of(const at::Tensor& x, const weight& w) {
  const at::Tensor& factors = w.bound();
  TORCH_CHECK(factors.scalar_type() == x.scalar_type() && factors.numel() == x.size(1), "norm ", w.name, ": ",
              factors.numel(), " weights of type ", factors.scalar_type(), " for rows of ", x.size(1), " elements of ",
              x.scalar_type());
  return {.x = bytes_of(x),
          .weight = bytes_of(factors),
          .type = core_dtype(x.scalar_type()),
          .rows = static_cast<uint64_t>(x.size(0)),
          .width = static_cast<uint64_t>(x.size(1))};
}

/// Numbers in the type that sums are formed in.
at::Tensor wide_numbers(const at::Tensor& like, int64_t count) {
  return at::empty({count}, like.options().dtype(sum_dtype(like.scalar_type())).requires_grad(false));
}

void write(const sink_slot& slot, const weight& parameter, const at::Tensor& gradient) {
  gradient_writer writer(slot, parameter);
  at::Tensor& out = writer.out();
  kernels::cast(bytes_of(gradient), core_dtype(gradient.scalar_type()), bytes_in(out), core_dtype(out.scalar_type()),
                static_cast<uint64_t>(out.numel()));
  writer.commit();
}

}  // namespace

normed_rows row_norm::forward(const at::Tensor& x) const {
  normed_rows out{.y = at::empty_like(x), .mean = {}, .rstd = wide_numbers(x, x.size(0))};
  const auto in = input_of(x, w);
  const bool reference = x.scalar_type() == at::kDouble;
  if (!bias) {
    if (reference) {
      kernels::rms_norm_reference(in, epsilon, bytes_in(out.y), out.rstd.mutable_data_ptr<double>());
    } else {
      kernels::rms_norm(in, epsilon, bytes_in(out.y), out.rstd.mutable_data_ptr<float>());
    }
    return out;
  }
  out.mean = wide_numbers(x, x.size(0));
  if (reference) {
    kernels::layer_norm_reference(in, bytes_of(bias->bound()), epsilon, bytes_in(out.y),
                                  out.mean.mutable_data_ptr<double>(), out.rstd.mutable_data_ptr<double>());
  } else {
    kernels::layer_norm(in, bytes_of(bias->bound()), epsilon, bytes_in(out.y), out.mean.mutable_data_ptr<float>(),
                        out.rstd.mutable_data_ptr<float>());
  }
  return out;
}

at::Tensor row_norm::backward(const sink_slot& slot, const at::Tensor& x, const normed_rows& of_x, at::Tensor dy,
                              const at::Tensor& past) const {
  const kernels::norm_gradient gradient{.dy = bytes_of(dy), .past = past.defined() ? bytes_of(past) : nullptr};
  at::Tensor dx = in_place_of(dy);
  const at::Tensor dw = wide_numbers(x, x.size(1));
  const auto in = input_of(x, w);
  const bool reference = x.scalar_type() == at::kDouble;
  if (!bias) {
    if (reference) {
      kernels::rms_norm_backward_reference(in, gradient, of_x.rstd.const_data_ptr<double>(), bytes_in(dx),
                                           dw.mutable_data_ptr<double>());
    } else {
      kernels::rms_norm_backward(in, gradient, of_x.rstd.const_data_ptr<float>(), bytes_in(dx),
                                 dw.mutable_data_ptr<float>());
    }
    write(slot, w, dw);
    return dx;
  }
  const at::Tensor db = wide_numbers(x, x.size(1));
  if (reference) {
    kernels::layer_norm_backward_reference(in, gradient, of_x.mean.const_data_ptr<double>(),
                                           of_x.rstd.const_data_ptr<double>(), bytes_in(dx),
                                           dw.mutable_data_ptr<double>(), db.mutable_data_ptr<double>());
  } else {
    kernels::layer_norm_backward(in, gradient, of_x.mean.const_data_ptr<float>(), of_x.rstd.const_data_ptr<float>(),
                                 bytes_in(dx), dw.mutable_data_ptr<float>(), db.mutable_data_ptr<float>());
  }
  write(slot, w, dw);
  write(slot, *bias, db);
  return dx;
}

}  // namespace troupe::models
