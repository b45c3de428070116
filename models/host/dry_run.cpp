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

core::result<dry_run_result> dry_run(const module_model& model, core::model_table& table, const host_batch& first,
                                     const random_key& key) {
  const at::AutoGradMode mode(true);
  const at::ScalarType type = parameters_of(model).front().scalar_type();
  dry_run_result out;
  const at::Device where = parameters_of(model).front().device();
  at::Tensor x = first.input.is_floating_point() ? first.input.to(where, type) : first.input.to(where);
  bool trains = false;
  for (size_t u = 0; u < model.units.size(); ++u) {
    const auto& unit = model.units[u];
    const std::string from = u == 0 ? "the batch's input" : "the output of " + named(model.units[u - 1]);
    const std::string given = from + ", " + shape_text(x);
    auto& info = table.units[u];
    const kept_buffers kept(unit);
    if (u > 0) info.input_bytes = x.nbytes();
    x = x.detach();
    if (trains && x.is_floating_point()) x.requires_grad_(true);
    for (uint32_t q : info.parameters) {
      const auto& parameter = table.parameters[q];
      trains = trains || parameter.trainable;
      if (parameter.trainable) info.segments[0].weight_bytes += parameter.numel() * c10::elementSize(type);
    }
    at::Tensor y;
    try {
      random_key mine = key;
      mine.use = static_cast<uint32_t>(u);
      const random_turn turn(mine);
      const operation_meter meter;
      y = without_gaps(unit.forward(x));
      if (info.segments[0].forward_flops == 0) info.segments[0].forward_flops = meter.flops();
      info.segments[0].saved_bytes = static_cast<uint64_t>(std::max<int64_t>(0, meter.live_bytes()));
      out.draws.push_back(turn.drew());
    } catch (const std::exception& e) {
      return core::fail(error_kind::bad_input,
                        "own model: " + named(unit) + " does not take " + given + ": " + line_of(e));
    }
    if (!y.defined())
      return core::fail(error_kind::bad_input, "own model: " + named(unit) + " gave nothing for " + given);
    if (trains && !y.requires_grad())
      return core::fail(error_kind::bad_input, "own model: wanted gradients to flow back through " + named(unit) +
                                                   ", but its output, " + shape_text(y) +
                                                   ", does not depend on its input and parameters");
    x = y;
  }
  const std::string given =
      shape_text(x) + " from " + named(model.units.back()) + " and the target, " + shape_text(first.target);
  try {
    const at::Tensor output = x.detach().to(sum_dtype(type));
    const at::Tensor loss =
        model.loss(output.requires_grad_(true), first.target.defined() ? first.target.to(where) : first.target);
    if (!loss.defined() || loss.numel() != 1 || !loss.is_floating_point() || !loss.requires_grad())
      return core::fail(error_kind::bad_input, "own model: wanted one number with a gradient as the loss of " + given +
                                                   ", got " + shape_text(loss));
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input, "own model: the loss does not take " + given + ": " + line_of(e));
  }
  return out;
}

}  // namespace troupe::models
