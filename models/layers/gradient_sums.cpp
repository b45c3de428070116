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
  const auto begin = [&](const weight& w, std::optional<gradient_in_parts>& of, std::optional<row_sums>& sums) {
    if (!w.trainable) return;
    of.emplace(slot, w);
    sums.emplace(of->out(), rows, p.panels);
  };
  begin(p.w, dw_, weight_);
  if (p.adapter) {
    begin(p.adapter->a, of_a_, a_);
    begin(p.adapter->b, of_b_, b_);
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
  if (a_ || b_) {
    const at::Tensor x = p_.adapter->dropped(rows, added_);
    if (a_) a_->add(p_.adapter_gradient(g), x);
    if (b_) b_->add(g, p_.inside_adapter(x));
  }
  added_ += rows.size(0);
}

void gradient_sums::finish() {
  if (weight_) weight_->finish();
  if (dw_) dw_->commit();
  if (bias_) bias_->finish();
  if (db_) db_->commit();
  if (a_) a_->finish();
  if (of_a_) of_a_->commit();
  if (b_) b_->finish();
  if (of_b_ && p_.adapter->scale != 1) of_b_->out().mul_(p_.adapter->scale);
  if (of_b_) of_b_->commit();
}

}  // namespace troupe::models
