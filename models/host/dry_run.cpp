#include "models/host/dry_run.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>

#include "models/host/module_parts.hpp"
#include "models/host/module_table.hpp"
#include "models/host/operation_meter.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

using core::error_kind;

/// The values of a unit's buffers, to be restored.
class kept_buffers {
 public:
  explicit kept_buffers(const module_unit& unit) : buffers_(parts_of(unit).buffers) {
    for (const auto& b : buffers_) values_.push_back(b.tensor.clone());
  }
  ~kept_buffers() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < values_.size(); ++i) buffers_[i].tensor.copy_(values_[i]);
  }
  kept_buffers(const kept_buffers&) = delete;
  kept_buffers& operator=(const kept_buffers&) = delete;

 private:
  std::vector<named_tensor> buffers_;
  std::vector<at::Tensor> values_;
};

std::string named(const module_unit& u) { return std::string("unit '").append(u.name).append("'"); }

}  // namespace

at::Tensor without_gaps(const at::Tensor& t) {
  return t.defined() && !t.is_non_overlapping_and_dense() ? t.contiguous() : t;
}

std::string line_of(const std::exception& e) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  std::string text = torch != nullptr ? torch->what_without_backtrace() : e.what();
  return text.substr(0, text.find('\n'));
}

dry_run::dry_run(const host_batch& first, at::ScalarType type, at::Device where, const random_key& key)
    : target_(first.target), type_(type), where_(where), key_(key), x_(first.input.detach().to(where)) {
  if (x_.is_floating_point()) x_ = x_.to(type);
}

core::result<void> dry_run::compute(const module_unit& unit, uint32_t u, core::model_table& table) {
  const at::AutoGradMode mode(true);
  const std::string given = (u == 0 ? "the batch's input" : "the output of " + before_) + ", " + shape_text(x_);
  auto& info = table.units[u];
  auto& segment = info.segments[0];
  const kept_buffers kept(unit);
  before_ = named(unit);
  if (u > 0) info.input_bytes = x_.nbytes();
  if (trains_ && x_.is_floating_point()) x_.requires_grad_(true);
  for (uint32_t q : info.parameters) {
    const auto& parameter = table.parameters[q];
    trains_ = trains_ || parameter.trainable;
    if (parameter.trainable) segment.weight_bytes += parameter.numel() * c10::elementSize(type_);
  }
  at::Tensor y;
  try {
    random_key mine = key_;
    mine.use = u;
    const random_turn turn(mine);
    const operation_meter meter;
    y = without_gaps(unit.forward(x_));
    if (segment.forward_flops == 0) segment.forward_flops = meter.flops();
    segment.saved_bytes = static_cast<uint64_t>(std::max<int64_t>(0, meter.live_bytes()));
    draws_.push_back(turn.drew());
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input,
                      "own model: " + named(unit) + " does not take " + given + ": " + line_of(e));
  }
  if (!y.defined())
    return core::fail(error_kind::bad_input, "own model: " + named(unit) + " gave nothing for " + given);
  if (trains_ && !y.requires_grad())
    return core::fail(error_kind::bad_input, "own model: wanted gradients to flow back through " + named(unit) +
                                                 ", but its output, " + shape_text(y) +
                                                 ", does not depend on its input and parameters");
  x_ = y.detach();  // the graph ends here: it holds the unit's tensors
  return {};
}

core::result<void> dry_run::end(const module_model& model) {
  if (!trains_)
    return core::fail(error_kind::bad_input, "own model: wanted at least one parameter with requires_grad, got none");
  const at::AutoGradMode mode(true);
  const std::string given = shape_text(x_) + " from " + before_ + " and the target, " + shape_text(target_);
  try {
    const at::Tensor output = x_.to(sum_dtype(type_));
    const at::Tensor loss = model.loss(output.requires_grad_(true), target_.defined() ? target_.to(where_) : target_);
    if (!loss.defined() || loss.numel() != 1 || !loss.is_floating_point() || !loss.requires_grad())
      return core::fail(error_kind::bad_input, "own model: wanted one number with a gradient as the loss of " + given +
                                                   ", got " + shape_text(loss));
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input, "own model: the loss does not take " + given + ": " + line_of(e));
  }
  return {};
}

}  // namespace troupe::models
