#include "models/layers/gradient_sums.hpp"

#include <ATen/ops/empty.h>

#include "models/segment/weight_work.hpp"

namespace troupe::models {

gradient_in_parts::gradient_in_parts(const sink_slot& slot, const weight& w) : slot_(slot), w_(w) {
  if (slot.later == nullptr) writer_.emplace(slot, w);
  out_ = writer_ ? writer_->out() : at::empty(w.tensor.sizes(), w.tensor.options().requires_grad(false));
}

void gradient_in_parts::commit() {
  if (writer_) return writer_->commit();
  slot_.later->add(
      {out_}, [w = w_](const sink_slot& s, const weight_work::tensors& kept) { gradient_writer(s, w).write(kept[0]); });
}

gradient_sums::gradient_sums(const sink_slot& slot, const projection& p, int64_t rows) : p_(p) {
  if (p.w.trainable) {
    dw_.emplace(slot, p.w);
    weight_.emplace(dw_->out(), rows, p.panels);
  }
  if (!p.bias || !p.bias->trainable) return;
  db_.emplace(slot, *p.bias);
  if (p.adds_bias)
    bias_.emplace(db_->out(), rows);
  else
    db_->out().zero_();
}

void gradient_sums::add(const at::Tensor& rows, const at::Tensor& g) {
  if (weight_) {
    const at::Tensor factor = p_.taken(rows);
    p_.layout == weight_layout::in_out ? weight_->add(factor, g) : weight_->add(g, factor);
  }
  if (bias_) bias_->add(g);
}

void gradient_sums::finish() {
  if (weight_) weight_->finish();
  if (dw_) dw_->commit();
  if (bias_) bias_->finish();
  if (db_) db_->commit();
}

}  // namespace troupe::models
