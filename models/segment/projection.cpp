#include "models/segment/projection.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <utility>

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

/// Writes the gradient of a matrix: `scale` times the product of `left` (N, m) transposed and `right` (N, n). `panels`
/// says how the sum over all N rows is formed.
void write_product(const sink_slot& slot, const weight& w, const at::Tensor& left, const at::Tensor& right,
                   panel_sums panels, double scale = 1) {
  if (!w.trainable) return;
  gradient_writer dw(slot, w);
  if (panels != panel_sums::none) {
    row_sums sums(dw.out(), left.size(0), panels);
    sums.add(left, right);
    sums.finish();
  } else {
    product_out(dw.out(), left.t(), right);
  }
  if (scale != 1) dw.out().mul_(scale);
  dw.commit();
}

}  // namespace

at::Tensor low_rank::dropped(const at::Tensor& rows, int64_t first) const {
  if (!drop) return rows;
  at::Tensor out = rows.clone(at::MemoryFormat::Contiguous);
  drop(out, first);
  return out;
}

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

at::Tensor projection::input_gradient(const at::Tensor& g, int64_t first) const {
  at::Tensor out = rows_of(g, w.bound().size(layout == weight_layout::in_out ? 0 : 1));
  input_gradient_out(out, g, first);
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

void projection::multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& plus) const {
  (panels != panel_sums::none ? panel_product_out : product_out)(out, a, b, plus);
}

at::Tensor projection::inside_adapter(const at::Tensor& dropped) const {
  at::Tensor out = rows_of(dropped, adapter->a.tensor.size(0));
  multiply(out, dropped, adapter->a.bound().t(), {});
  return out;
}

at::Tensor projection::adapter_gradient(const at::Tensor& g) const {
  at::Tensor out = rows_of(g, adapter->b.tensor.size(1));
  multiply(out, g, adapter->b.bound(), {});
  // A product and a sum are rounded one after the other, here and below: a fused operation would give other bits to the
  // elements that a vector loop leaves to its scalar end.
  return adapter->scale == 1 ? out : out.mul_(adapter->scale);
}

void projection::forward_out(at::Tensor& out, const at::Tensor& rows, int64_t first) const {
  const at::Tensor& matrix = w.bound();
  const at::Tensor factor = taken(rows);
  if (watch != nullptr) watch->takes(w.id, factor);
  multiply(out, factor, layout == weight_layout::in_out ? matrix : matrix.t(),
           bias && adds_bias ? bias->bound() : at::Tensor());
  if (!adapter) return;
  at::Tensor more = rows_of(rows, outputs());
  multiply(more, inside_adapter(adapter->dropped(rows, first)), adapter->b.bound().t(), {});
  if (adapter->scale != 1) more.mul_(adapter->scale);
  out.add_(more);
}

void projection::input_gradient_out(at::Tensor& out, const at::Tensor& g, int64_t first) const {
  const at::Tensor& matrix = w.bound();
  multiply(out, g, layout == weight_layout::in_out ? matrix.t() : matrix, {});
  if (!adapter) return;
  at::Tensor more = rows_of(g, adapter->a.tensor.size(1));
  multiply(more, adapter_gradient(g), adapter->a.bound(), {});
  if (adapter->drop) adapter->drop(more, first);
  out.add_(more);
}

void projection::write_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const {
  write_own_gradients(slot, rows, g);
  if (adapter && adapter->trains()) write_adapter_gradients(slot, rows, g);
}

void projection::write_own_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const {
  const bool writes_bias = bias && bias->trainable;
  if (slot.later != nullptr) {
    if (w.trainable || writes_bias)
      slot.later->add({w.trainable ? rows : at::Tensor(), g},
                      [p = *this](const sink_slot& s, const weight_work::tensors& kept) {
                        p.write_own_gradients(s, kept[0], kept[1]);
                      });
    return;
  }
  if (w.trainable) {
    const at::Tensor factor = taken(rows);
    const bool is_turned = layout == weight_layout::in_out;
    write_product(slot, w, is_turned ? factor : g, is_turned ? g : factor, panels);
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

// Backward has the gradients dA = dH^T x and dB = scale * g^T H, where x is the adapter's input after dropout, H = A x,
// and dH = scale * g B. The weight part of a split backward reads no parameters, so the input part leaves it H and dH.
void projection::write_adapter_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const {
  const auto write = [](const projection& p, const sink_slot& s, const at::Tensor& x, const weight_work::tensors& of) {
    write_product(s, p.adapter->a, of[1], x, p.panels);
    write_product(s, p.adapter->b, of[2], of[0], p.panels, p.adapter->scale);
  };
  const at::Tensor x = adapter->dropped(rows, 0);
  weight_work::tensors of{inside_adapter(x), adapter_gradient(g), g};
  if (slot.later == nullptr) return write(*this, slot, x, of);
  of.push_back(rows);
  slot.later->add(std::move(of), [p = *this, write](const sink_slot& s, const weight_work::tensors& kept) {
    write(p, s, p.adapter->dropped(kept[3], 0), kept);
  });
}

}  // namespace troupe::models
