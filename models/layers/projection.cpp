#include "models/layers/projection.hpp"

#include "models/layers/bytes.hpp"
#include "models/layers/operations.hpp"
#include "models/layers/products.hpp"
#include "models/layers/torch_dtype.hpp"
#include "models/layers/weight_work.hpp"

namespace troupe::models {
namespace {

/// out (C) = the sums of the columns of g (N, C), whose elements lie side by side.
void sum_columns(const at::Tensor& g, at::Tensor& out) {
  kernels_for(g).column_sums(bytes_of(g), core_dtype(g.scalar_type()), static_cast<uint64_t>(g.size(0)),
                             static_cast<uint64_t>(g.size(1)), static_cast<uint64_t>(g.stride(0)), bytes_in(out),
                             core_dtype(out.scalar_type()));
}

}  // namespace

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

at::Tensor like_rows_of(const at::Tensor& rows, const at::Tensor& like) {
  auto shape = like.sizes().vec();
  shape.back() = rows.size(1);
  return rows.view(shape);
}

at::Tensor projection::forward(const at::Tensor& rows) const {
  const at::Tensor& matrix = w.bound();
  return product(rows, layout == weight_layout::in_out ? matrix : matrix.t(),
                 bias && adds_bias ? bias->bound() : at::Tensor());
}

at::Tensor projection::input_gradient(const at::Tensor& g) const {
  const at::Tensor& matrix = w.bound();
  return product(g, layout == weight_layout::in_out ? matrix.t() : matrix);
}

void projection::write_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const {
  const bool writes_bias = bias && bias->trainable;
  if (slot.later != nullptr) {
    if (w.trainable || writes_bias)
      slot.later->add({w.trainable ? rows : at::Tensor(), g},
                      [p = *this](const sink_slot& s, const weight_work::tensors& kept) {
                        p.write_gradients(s, kept[0], kept[1]);
                      });
    return;
  }
  if (w.trainable) {
    gradient_writer dw(slot, w);
    if (layout == weight_layout::in_out) {
      product_out(dw.out(), rows.t(), g);
    } else {
      product_out(dw.out(), g.t(), rows);
    }
    dw.commit();
  }
  if (writes_bias) {
    gradient_writer db(slot, *bias);
    if (adds_bias)
      sum_columns(g, db.out());
    else
      db.out().zero_();
    db.commit();
  }
}

}  // namespace troupe::models
