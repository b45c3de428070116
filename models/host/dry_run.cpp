#include "models/host/dry_run.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "core/math.hpp"

#include "models/host/module_parts.hpp"
#include "models/host/module_table.hpp"
#include "models/host/operation_meter.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Copies the values of a unit's buffers, and restores them when it is destroyed.
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

named_values without_gaps(const named_values& x) {
  std::vector<named_values::entry> all;
  for (const auto& [name, t] : x) all.emplace_back(name, without_gaps(t));
  return named_values(std::move(all));
}

std::string line_of(const std::exception& e) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  std::string text = torch != nullptr ? torch->what_without_backtrace() : e.what();
  return text.substr(0, text.find('\n'));
}

named_values entering(const host_batch& batch, at::ScalarType type, at::Device where) {
  const auto enters = [&](const at::Tensor& t) {
    return t.is_floating_point() ? t.detach().to(where, type) : t.detach().to(where);
  };
  std::vector<named_values::entry> all = {{"input", enters(batch.input)}};
  for (const auto& [name, tensor] : batch.others) all.emplace_back(name, enters(tensor));
  return named_values(std::move(all));
}

at::Tensor loss_of(const module_model& model, const named_values& output, const host_batch& batch) {
  std::vector<named_values::entry> wide;
  for (const auto& [name, t] : output)
    wide.emplace_back(name, t.is_floating_point() ? t.to(sum_dtype(t.scalar_type())) : t);
  host_batch there = batch;
  const at::Device where = wide.front().second.device();
  if (there.target.defined()) there.target = there.target.to(where);
  return model.loss(named_values(std::move(wide)), there);
}

dry_run::dry_run(const host_batch& first, at::ScalarType type, at::Device where, const random_key& key)
    : batch_(first), type_(type), where_(where), key_(key), y_(entering(first, type, where)) {}

core::result<void> dry_run::compute(const module_unit& unit, uint32_t u, core::model_table& table) {
  const at::AutoGradMode mode(true);
  x_ = std::move(y_);
  const std::string given = (u == 0 ? "the batch's input" : "the output of " + before_) + ", " + shape_text(x_);
  auto& info = table.units[u];
  auto& segment = info.segments[0];
  const kept_buffers kept(unit);
  before_ = named(unit);
  inputs_.emplace_back();
  info.input_tensors = static_cast<uint32_t>(x_.size());
  for (const auto& [name, t] : x_) {
    if (u > 0) info.input_bytes = core::round_up(info.input_bytes, core::input_alignment) + t.nbytes();
    inputs_.back().push_back({name, t.requires_grad(), t.sizes().vec()});
  }
  for (uint32_t q : info.parameters) {
    const auto& parameter = table.parameters[q];
    trains_ = trains_ || parameter.trainable;
    if (parameter.trainable) segment.weight_bytes += parameter.numel() * c10::elementSize(type_);
  }
  named_values y;
  try {
    random_key mine = key_;
    mine.use = unit.place.value_or(u);
    const random_turn turn(mine);
    const operation_meter meter;
    y = without_gaps(unit.forward(x_));
    if (segment.forward_flops == 0) segment.forward_flops = meter.flops();
    segment.saved_bytes = static_cast<uint64_t>(std::max<int64_t>(0, meter.live_bytes()));
    draws_.push_back(turn.drew());
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input, "own model: " + named(unit) + " failed for " + given + ": " + line_of(e));
  }
  if (y.size() == 0 || std::ranges::any_of(y, [](const auto& v) { return !v.second.defined(); }))
    return core::fail(error_kind::bad_input, "own model: " + named(unit) + " returned no tensor for " + given);
  if (trains_ && std::ranges::none_of(y, [](const auto& v) { return v.second.requires_grad(); }))
    return core::fail(error_kind::bad_input, "own model: wanted gradients to flow back through " + named(unit) +
                                                 ", but its output, " + shape_text(y) +
                                                 ", does not depend on its input and parameters");
  // The outputs are detached, because a longer autograd graph would keep the unit's tensors alive.
  std::vector<named_values::entry> next;
  for (const auto& [name, t] : y) next.emplace_back(name, t.detach().requires_grad_(t.requires_grad()));
  y_ = named_values(std::move(next));
  cut_.emplace_back();
  return {};
}

core::result<void> dry_run::try_cut(const module_unit& unit, injection& cut, uint32_t degree) {
  const size_t u = cut_.size() - 1;
  cut_.back().reset();
  columns_.clear();
  if (!cut.cuts()) return {};
  const auto fail = [&](const std::string& wanted, const std::string& got) {
    return core::fail(error_kind::bad_input,
                      "own model: " + named(unit) + ", which is cut over ranks: wanted " + wanted + ", got " + got);
  };
  if (y_.size() != 1 || y_.begin()->second.scalar_type() != type_)
    return fail(std::string("one output in ") + c10::toString(type_), shape_text(y_));
  if (u > 0 && x_.size() != 1) return fail("one input, whose gradient can be summed", shape_text(x_));
  random_key mine = key_;
  mine.use = unit.place.value_or(static_cast<uint32_t>(u));
  if (joins_loss_) columns_ = cut.vocabulary();
  TROUPE_ASSIGN(auto costs, probe(unit, x_, cut, degree, mine, !columns_.empty()));
  cut_.back() = costs;
  return {};
}

core::result<void> dry_run::try_own(const module_unit& unit, const layer_policy& policy) const {
  const kept_buffers kept(unit);
  random_key mine = key_;
  mine.use = unit.place.value_or(static_cast<uint32_t>(cut_.size() - 1));
  return probe_own(unit, x_, policy, mine);
}

core::model_table dry_run::local_table(const core::model_table& whole, const core::tp_plan& cut) const {
  core::model_table out = whole;
  for (size_t q = 0; q < out.parameters.size(); ++q)
    out.parameters[q].shape = core::local_shape(whole.parameters[q].shape, cut.parameters[q]);
  for (size_t u = 0; u < out.units.size(); ++u) {
    if (!cut_[u]) continue;
    core::unit_info& info = out.units[u];
    core::segment_info& s = info.segments[0];
    const bool last = u + 1 == out.units.size();
    s.forward_flops = cut_[u]->forward_flops;
    s.saved_bytes = cut_[u]->saved_bytes;
    s.weight_bytes = 0;
    for (const uint32_t q : s.parameters) {
      core::parameter_info& p = out.parameters[q];
      p.share = cut.parameters[q].cuts() ? core::tensor_share::cut : core::tensor_share::summed;
      if (p.trainable) s.weight_bytes += p.numel() * c10::elementSize(type_);
    }
    const bool joins = last && !columns_.empty();
    s.output = {joins ? core::exchange_op::gather : core::exchange_op::sum, joins  ? statistics_bytes_
                                                                            : last ? output_bytes_
                                                                                   : out.units[u + 1].input_bytes};
    if (u > 0) s.input_gradient = {core::exchange_op::sum, info.input_bytes};
    if (last) info.segments.push_back({"loss", {}, 0, joins ? core::div_up(loss_bytes_, cut.degree) : loss_bytes_});
  }
  return out;
}

core::result<void> dry_run::end(const module_model& model) {
  if (!trains_)
    return core::fail(error_kind::bad_input, "own model: wanted at least one parameter with requires_grad, got none");
  const at::AutoGradMode mode(true);
  const std::string given = shape_text(y_) + " from " + before_ + " and the target, " + shape_text(batch_.target);
  for (const auto& [name, t] : y_) output_bytes_ += t.nbytes();
  if (const at::Tensor& y = y_.begin()->second; !columns_.empty())
    statistics_bytes_ = static_cast<uint64_t>(y.numel() / y.size(-1)) * vocabulary_cross_entropy::row_statistics *
                        c10::elementSize(sum_dtype(type_));
  try {
    const operation_meter meter;
    const at::Tensor loss = loss_of(model, y_, batch_);
    loss_bytes_ = static_cast<uint64_t>(std::max<int64_t>(0, meter.live_bytes()));
    if (!loss.defined() || loss.numel() != 1 || !loss.is_floating_point() || !loss.requires_grad())
      return core::fail(error_kind::bad_input, "own model: wanted one number with a gradient as the loss of " + given +
                                                   ", got " + shape_text(loss));
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input, "own model: the loss failed for " + given + ": " + line_of(e));
  }
  return {};
}

void dry_run::tell(module_facts& facts) const {
  facts.draws = draws_;
  facts.inputs = inputs_;
  facts.columns = columns_;
  for (const auto& c : cut_) facts.is_cut.push_back(c.has_value());
  for (const auto& [name, tensor] : y_) {
    facts.outputs.push_back(name);
    facts.output_shapes.push_back(tensor.sizes().vec());
  }
}

}  // namespace troupe::models
