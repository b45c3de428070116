#include "models/layers/norm.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "models/segment/function_node.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"
#include "models/segment/weight_work.hpp"

namespace troupe::models {
namespace {

/// Returns the argument of the norm kernels for rows `x` and weight `w`, to which `shift` is added; it refers to the
/// memory of `x`, which must outlive it.
kernels::norm_input input_of(const at::Tensor& x, const weight& w, float shift) {
  const at::Tensor& factors = w.bound();
  TORCH_CHECK(factors.scalar_type() == x.scalar_type() && factors.numel() == x.size(1), "norm ", w.name, ": ",
              factors.numel(), " weights of type ", factors.scalar_type(), " for rows of ", x.size(1), " elements of ",
              x.scalar_type());
  return {.x = bytes_of(x),
          .weight = bytes_of(factors),
          .type = core_dtype(x.scalar_type()),
          .rows = static_cast<uint64_t>(x.size(0)),
          .width = static_cast<uint64_t>(x.size(1)),
          .shift = shift};
}

/// Returns a new tensor of `count` numbers, in the type in which sums over elements of `like` are formed.
at::Tensor wide_numbers(const at::Tensor& like, int64_t count) {
  return at::empty({count}, like.options().dtype(sum_dtype(like.scalar_type())).requires_grad(false));
}

kernels::norm_rows kept_in(const normed_rows& rows) {
  return {.mean = rows.mean.defined() ? bytes_in(rows.mean) : nullptr, .rstd = bytes_in(rows.rstd)};
}

}  // namespace

void write_gradient(const sink_slot& slot, const weight& parameter, const at::Tensor& gradient) {
  if (!parameter.trainable) return;
  if (slot.later != nullptr)
    return slot.later->add({gradient}, [parameter](const sink_slot& s, const weight_work::tensors& kept) {
      write_gradient(s, parameter, kept[0]);
    });
  gradient_writer writer(slot, parameter);
  at::Tensor& out = writer.out();
  kernels_for(out).cast(bytes_of(gradient), core_dtype(gradient.scalar_type()), bytes_in(out),
                        core_dtype(out.scalar_type()), count_of(out));
  writer.commit();
}

normed_rows row_norm::forward(const at::Tensor& x) const {
  normed_rows out{.y = at::empty_like(x), .mean = {}, .rstd = wide_numbers(x, x.size(0))};
  const auto in = input_of(x, w, numbers.shift);
  if (bias) {
    out.mean = wide_numbers(x, x.size(0));
    kernels_for(x).layer_norm(in, bytes_of(bias->bound()), numbers.epsilon, bytes_in(out.y), kept_in(out));
  } else {
    kernels_for(x).rms_norm(in, numbers.epsilon, bytes_in(out.y), kept_in(out));
  }
  return out;
}

at::Tensor row_norm::backward(const sink_slot& slot, const at::Tensor& x, const normed_rows& of_x, at::Tensor dy,
                              const at::Tensor& past) const {
  const kernels::norm_gradient gradient{.dy = bytes_of(dy), .past = past.defined() ? bytes_of(past) : nullptr};
  at::Tensor dx = in_place_of(dy);
  const at::Tensor dw = wide_numbers(x, x.size(1));
  const auto in = input_of(x, w, numbers.shift);
  if (!bias) {
    kernels_for(x).rms_norm_backward(in, gradient, kept_in(of_x), bytes_in(dx), bytes_in(dw));
    write_gradient(slot, w, dw);
    return dx;
  }
  const at::Tensor db = wide_numbers(x, x.size(1));
  kernels_for(x).layer_norm_backward(in, gradient, kept_in(of_x), bytes_in(dx), bytes_in(dw), bytes_in(db));
  write_gradient(slot, w, dw);
  write_gradient(slot, *bias, db);
  return dx;
}

}  // namespace troupe::models
