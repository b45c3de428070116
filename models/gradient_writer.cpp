// Gradients written where the sink wants them.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include "models/torch_dtype.hpp"
#include "models/weight.hpp"

namespace troupe::models {

const at::Tensor& weight::bound() const {
  TORCH_CHECK(tensor.storage().data() != nullptr, "parameter ", name, " is bound to no memory");
  return tensor;
}

gradient_writer::gradient_writer(const sink_slot& slot, const weight& parameter) {
  TORCH_CHECK(slot.sink != nullptr, "a gradient of parameter ", parameter.id, " (", parameter.name,
              ") was formed outside segment_run::backward");
  target_ = slot.sink->target(parameter.id);
  TORCH_CHECK(target_.data != nullptr, "the gradient sink gave no memory for parameter ", parameter.id, " (",
              parameter.name, ")");
  destination_ = at::from_blob(target_.data, parameter.tensor.sizes(),
                               parameter.tensor.options().dtype(torch_dtype(target_.type)).requires_grad(false));
  const bool direct = !target_.accumulate && destination_.scalar_type() == parameter.tensor.scalar_type();
  out_ = direct ? destination_ : at::empty_like(destination_, parameter.tensor.scalar_type());
}

void gradient_writer::commit() {
  if (out_.is_same(destination_)) return;
  if (target_.accumulate) {
    destination_.add_(out_);
  } else {
    destination_.copy_(out_);
  }
}

}  // namespace troupe::models
