// A segment as one small autograd graph, from its detached input to its output.
#include "models/layers/segment_scope.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>

#include "models/layers/weight_work.hpp"

namespace troupe::models {
namespace {

/// What the slot is filled with is reachable while backward runs and never afterwards, whatever happens.
class filled_slot {
 public:
  filled_slot(sink_slot& slot, const sink_slot& with) : slot_(slot) { slot_ = with; }
  ~filled_slot() { slot_ = {}; }
  filled_slot(const filled_slot&) = delete;
  filled_slot& operator=(const filled_slot&) = delete;

 private:
  sink_slot& slot_;
};

class graph_run final : public segment_run {
 public:
  graph_run(at::Tensor input, const values& results, std::shared_ptr<sink_slot> slot)
      : input_(std::move(input)), result_(results.first()), output_(detached(results)), slot_(std::move(slot)) {}

  [[nodiscard]] const values& outputs() const override { return output_; }

  // Backward wants the result's shape and history alone.
  void release_outputs() override {
    output_ = {};
    if (result_.requires_grad()) result_.set_data(result_.detach().new_empty({1}).expand(result_.sizes()));
  }

  values backward(const values& gradient, gradient_sink& sink) override {
    const filled_slot filled(*slot_, {.sink = &sink});
    return gradient_of(std::exchange(input_, {}), gradient);
  }

  values backward_input(const values& gradient) override {
    const at::Tensor input = std::exchange(input_, {});
    const filled_slot filled(*slot_, {.later = &work_.emplace()});
    at::Tensor out = gradient_of(input, gradient);
    work_->leave(input);
    output_ = {};
    return out;
  }

  void backward_weight(gradient_sink& sink) override {
    TORCH_CHECK(work_, "the weight part of a backward whose input part has not run");
    const at::NoGradGuard no_grad;
    weight_work work = std::move(*work_);
    work_.reset();
    work.run({.sink = &sink});
  }

 private:
  static values detached(const values& all) {
    std::vector<at::Tensor> out;
    for (const at::Tensor& t : all) out.push_back(t.detach());
    return values(std::move(out));
  }
  at::Tensor gradient_of(const at::Tensor& input, const at::Tensor& gradient) {
    TORCH_CHECK(result_.defined() && result_.requires_grad(), "backward of a segment that keeps no graph");
    const at::Tensor result = std::exchange(result_, {});
    auto gradients =
        torch::autograd::grad({result}, {input}, {gradient.to(result.scalar_type()).reshape(result.sizes())});
    return std::move(gradients.front());
  }

  at::Tensor input_, result_;
  values output_;
  std::shared_ptr<sink_slot> slot_;
  std::optional<weight_work> work_;  // between the two parts of a split backward
};

}  // namespace

segment_scope::segment_scope(const core::model_table& table, const parameter_binding& parameters,
                             const micro_batch& batch, uint32_t unit, uint32_t segment, uint32_t coordinate)
    : table_(table),
      parameters_(parameters),
      batch_(batch),
      layers_(table.layers_of(unit, segment)),
      unit_(unit),
      leads_(coordinate == 0 || table.units[unit].segments[segment].output.op != core::exchange_op::sum) {}

const core::layer_info& segment_scope::next(core::layer_kind kind) {
  while (!layers_.empty() && layers_.front().kind != kind && layers_.front().parameters.empty())
    layers_ = layers_.subspan(1);
  TORCH_CHECK(!layers_.empty() && layers_.front().kind == kind, "a ", core::name_of(kind),
              " was wanted as the next layer, the table has ", layers_.empty() ? "none" : layers_.front().name);
  const core::layer_info& found = layers_.front();
  layers_ = layers_.subspan(1);
  return found;
}

weight segment_scope::parameter(uint32_t id) const {
  return {id, parameters_.tensor(id), table_.parameters[id].name, parameters_.trainable(id)};
}

std::unique_ptr<segment_run> run_segment(segment_scope& scope, const at::Tensor& input,
                                         const std::function<values(const at::Tensor&)>& forward) {
  const bool training = scope.batch().training;
  const at::AutoGradMode mode(training);
  at::Tensor detached = input.detach();
  if (training) detached.requires_grad_(true);
  const values results = forward(detached);
  return std::make_unique<graph_run>(training ? std::move(detached) : at::Tensor(), results, scope.slot());
}

}  // namespace troupe::models
