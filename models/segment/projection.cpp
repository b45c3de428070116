#include "models/segment/projection.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "kernels/compress/fake_quantise.hpp"
#include "models/segment/input_watch.hpp"
#include "models/segment/kept_tensor.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/products.hpp"
#include "models/segment/torch_values.hpp"
#include "models/segment/weight_work.hpp"

namespace troupe::models {
namespace {

/// Returns a new tensor with as many rows as `like`, of `width` elements each.
at::Tensor rows_of(const at::Tensor& like, int64_t width) {
  return at::empty({like.size(0), width}, like.options().requires_grad(false));
}

}  // namespace

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

at::Tensor like_rows_of(const at::Tensor& rows, const at::Tensor& like) {
  auto shape = like.sizes().vec();
  shape.back() = rows.size(1);
  return rows.view(shape);
}

at::Tensor without_elements(const at::Tensor& like, int64_t width) {
  auto sizes = like.sizes().vec();
  sizes.back() = width;
  return at::zeros({1}, like.options().requires_grad(false)).expand(sizes);
}

at::Tensor projection::room_for(const at::Tensor& rows) const { return rows_of(rows, outputs()); }

at::Tensor projection::forward(const at::Tensor& rows) const {
  at::Tensor out = room_for(rows);
  forward_out(out, rows);
  return out;
}

at::Tensor projection::input_gradient(const at::Tensor& g) const {
  at::Tensor out = rows_of(g, w.bound().size(layout == weight_layout::in_out ? 0 : 1));
  input_gradient_out(out, g);
  return out;
}

at::Tensor projection::taken(const at::Tensor& rows) const {
  if (!input) return rows;
  const at::Tensor in_order = rows.contiguous();
  const kernels::grouped_values tokens{bytes_of(in_order), core_dtype(rows.scalar_type()),
                                       static_cast<uint64_t>(rows.size(0)), static_cast<uint64_t>(rows.size(1))};
  if (input->seen != nullptr && rows.numel() > 0) {
    kernels::value_range<double> here;
    kernels::group_ranges({tokens.x, tokens.type, 1, tokens.groups * tokens.group_size}, {&here, 1});
    *input->seen = kernels::joined(*input->seen, here);  // a recomputation of the same input does not change the range
  }
  if (input->is_static && !input->range) return rows;
  const at::Tensor out = at::empty_like(in_order);
  if (input->is_static)
    kernels::fake_quantise_within(tokens, input->grid, {&*input->range, 1}, bytes_in(out));
  else
    kernels::fake_quantise(tokens, input->grid, bytes_in(out));
  return out;
}

void projection::forward_out(at::Tensor& out, const at::Tensor& rows) const {
  const at::Tensor& matrix = w.bound();
  const at::Tensor factor = taken(rows);
  if (watch != nullptr) watch->takes(w.id, factor);
  (panels != panel_sums::none ? panel_product_out : product_out)(out, factor,
                                                                 layout == weight_layout::in_out ? matrix : matrix.t(),
                                                                 bias && adds_bias ? bias->bound() : at::Tensor());
}

void projection::input_gradient_out(at::Tensor& out, const at::Tensor& g) const {
  const at::Tensor& matrix = w.bound();
  (panels != panel_sums::none ? panel_product_out : product_out)(
      out, g, layout == weight_layout::in_out ? matrix.t() : matrix, {});
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
    const at::Tensor factor = taken(rows);
    const at::Tensor &left = layout == weight_layout::in_out ? factor : g,
                     &right = layout == weight_layout::in_out ? g : factor;
    if (panels != panel_sums::none) {
      row_sums sums(dw.out(), rows.size(0), panels);
      sums.add(left, right);
      sums.finish();
    } else {
      product_out(dw.out(), left.t(), right);
    }
    dw.commit();
  }
  if (writes_bias) {
    gradient_writer db(slot, *bias);
    if (!adds_bias) {
      db.out().zero_();
    } else if (panels != panel_sums::none) {
      column_sums sums(db.out(), g.size(0));
      sums.add(g);
      sums.finish();
    } else {
      sum_columns(g, db.out());
    }
    db.commit();
  }
}

}  // namespace troupe::models
