// Writes gradients to the memory that the sink returns.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include "kernels/compress/weight_mask.hpp"
#include "models/segment/torch_values.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

const at::Tensor& weight::bound() const {
  TORCH_CHECK(tensor.storage().data() != nullptr, "parameter ", name, " is bound to no memory");
  return tensor;
}

gradient_writer::gradient_writer(const sink_slot& slot, const weight& parameter)
    : id_(parameter.id), kept_(parameter.trainable), type_(parameter.tensor.scalar_type()) {
  if (!kept_) {
    out_ = at::empty(parameter.tensor.sizes(), parameter.tensor.options().requires_grad(false));
    return;
  }
  TORCH_CHECK(slot.sink != nullptr, "a gradient of parameter ", parameter.id, " (", parameter.name,
              ") was formed outside segment_run::backward");
  const gradient_target target = slot.sink->target(parameter.id);
  TORCH_CHECK(target.data != nullptr, "the gradient sink gave no memory for parameter ", parameter.id, " (",
              parameter.name, ")");
  accumulate_ = target.accumulate;
  mask_ = target.kept;
  if (target.is_watched) watching_ = slot.sink;
  destination_ = at::from_blob(target.data, parameter.tensor.sizes(),
                               at::TensorOptions().dtype(torch_dtype(target.type)).device(parameter.tensor.device()));
}

at::Tensor& gradient_writer::out() {
  const bool direct = !accumulate_ && destination_.scalar_type() == type_;
  if (!out_.defined()) out_ = direct ? destination_ : at::empty_like(destination_, type_);
  return out_;
}

void gradient_writer::commit() {
  if (!kept_) return;
  show(out_);
  if (!mask_.empty()) mask(out_);
  if (!out_.is_same(destination_)) put(out_);
}

void gradient_writer::write(const at::Tensor& whole) {
  if (!kept_) return;
  show(whole);
  if (mask_.empty()) return put(whole);
  const at::Tensor own = whole.clone(at::MemoryFormat::Contiguous);
  mask(own);
  put(own);
}

void gradient_writer::show(const at::Tensor& whole) const {
  if (watching_ != nullptr) watching_->formed(id_, whole);
}

void gradient_writer::mask(const at::Tensor& whole) const {
  kernels::apply_mask(bytes_in(whole), core_dtype(whole.scalar_type()), static_cast<uint64_t>(whole.numel()), mask_);
}

void gradient_writer::put(const at::Tensor& whole) {
  if (accumulate_) {
    destination_.add_(whole);
  } else {
    destination_.copy_(whole);
  }
}

void gradient_writer::write_rows(const at::Tensor& ids, const at::Tensor& rows) {
  if (!kept_) return;
  const at::Tensor converted = rows.to(destination_.scalar_type());
  // Only embeddings write single rows, and they are never pruned.
  TORCH_CHECK(mask_.empty(), "rows of a gradient whose weight is pruned");
  if (accumulate_) {
    destination_.index_add_(0, ids, converted);
  } else {
    destination_.zero_().index_copy_(0, ids, converted);
  }
}

}  // namespace troupe::models
