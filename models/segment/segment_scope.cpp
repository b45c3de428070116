// Runs a segment as one autograd graph, from its detached input to its output.
#include "models/segment/segment_scope.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>

#include "models/segment/weight_work.hpp"

namespace troupe::models {
namespace {

/// Sets the contents of a segment's sink_slot while backward runs, and clears them afterwards, even after an exception.
class filled_slot {
 public:
  filled_slot(sink_slot& slot, const sink_slot& with) : slot_(slot) { slot_ = with; }
  ~filled_slot() { slot_ = {}; }
  filled_slot(const filled_slot&) = delete;
  filled_slot& operator=(const filled_slot&) = delete;

 private:
  sink_slot& slot_;
};

std::vector<at::Tensor> detached(const values& all) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : all) out.push_back(t.detach());
  return out;
}

// Frees a tensor's memory; the tensor keeps its shape and its history in the graph.
void release_bytes(const at::Tensor& t) { t.set_data(t.detach().new_empty({1}).expand(t.sizes())); }

class graph_run final : public segment_run {
 public:
  graph_run(std::vector<at::Tensor> inputs, const values& results, const segment_scope& scope)
      : inputs_(std::move(inputs)),
        results_(results.begin(), results.end()),
        output_(detached(results)),
        slot_(scope.slot()),
        later_rows_(scope.later_rows()) {}

  [[nodiscard]] const values& outputs() const override { return output_; }

  void multiply(int64_t first, int64_t count) override {
    TORCH_CHECK(later_rows_, "rows of a segment that has computed all of them");
    const at::NoGradGuard no_grad;
    later_rows_->run(first, count);
  }

  // Frees the memory of the results: backward needs only their shapes and histories. A result that is an input of the
  // segment is skipped, because it does not own its memory.
  void release_outputs() override {
    output_ = {};
    if (later_rows_) later_rows_->end();
    for (const at::Tensor& r : results_)
      if (r.requires_grad() && !r.is_leaf()) release_bytes(r);
  }

  values backward(const values& gradients, gradient_sink& sink) override {
    const filled_slot filled(*slot_, {.sink = &sink});
    return gradients_of(std::exchange(inputs_, {}), gradients);
  }

  values backward_input(const values& gradients) override {
    const auto inputs = std::exchange(inputs_, {});
    const filled_slot filled(*slot_, {.later = &work_.emplace()});
    values out = gradients_of(inputs, gradients);
    for (const at::Tensor& x : inputs) work_->leave(x);
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
  // Runs autograd: returns the gradients of `inputs` from those of the results. Results without a gradient are skipped;
  // an input on which no result depends has none.
  values gradients_of(const std::vector<at::Tensor>& inputs, const values& gradients) {
    std::vector<at::Tensor> of, with;
    const auto results = std::exchange(results_, {});
    for (size_t i = 0; i < results.size() && i < gradients.size(); ++i) {
      if (!gradients[i].defined() || !results[i].requires_grad()) continue;
      of.push_back(results[i]);
      with.push_back(gradients[i].to(results[i].scalar_type()).reshape(results[i].sizes()));
    }
    TORCH_CHECK(!of.empty(), "backward of a segment that keeps no graph");
    return values(torch::autograd::grad(of, inputs, with, /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                        /*allow_unused=*/inputs.size() > 1));
  }

  std::vector<at::Tensor> inputs_, results_;
  values output_;
  std::shared_ptr<sink_slot> slot_;
  // Functions that compute further rows of the output; null: forward computes all rows.
  std::shared_ptr<row_work> later_rows_;
  std::optional<weight_work> work_;  // set from the input part to the weight part of a split backward
};

/// True if a segment computes only this rank's columns (tokens), because tensor-parallel ranks split norms: its output
/// is collected from all ranks, or the gradient of its input is.
bool has_own_columns(const core::segment_info& s) {
  const auto collects = [](const core::segment_exchange& x) {
    return x.is_of_tensor_group() && x.op == core::exchange_op::collect;
  };
  return collects(s.output) || collects(s.input_gradient);
}

core::column_set columns_of(const core::segment_info& s, const micro_batch& batch, const model_place& place) {
  return place.split.norms && has_own_columns(s) ? place.split.of_columns().own_columns(batch.columns, place.coordinate)
                                                 : place.sequence.own_columns(batch.columns, place.sequence_coordinate);
}

}  // namespace

segment_scope::segment_scope(const core::model_table& table, const parameter_binding& parameters,
                             const micro_batch& batch, uint32_t unit, uint32_t segment, const model_place& place,
                             uint32_t first_unit)
    : table_(table),
      parameters_(parameters),
      batch_(batch),
      layers_(table.layers_of(first_unit + unit, segment)),
      unit_(unit),
      leads_(place.coordinate == 0 || !core::adds(table.units[first_unit + unit].segments[segment].output.op)),
      columns_(columns_of(table.units[first_unit + unit].segments[segment], batch, place)) {
  if (gives_pieces()) later_rows_ = std::make_shared<row_work>();
}

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

std::optional<input_rounding> segment_scope::input_grid(const core::layer_info& layer) const {
  if (batch_.input_grids == nullptr) return std::nullopt;
  return batch_.input_grids->at(static_cast<size_t>(&layer - table_.layers.data()));
}

std::unique_ptr<segment_run> run_segment(segment_scope& scope, const values& input,
                                         const std::function<values(const values&)>& forward, last_input last) {
  const bool training = scope.batch().training;
  const at::AutoGradMode mode(training);
  std::vector<at::Tensor> inputs = detached(input);
  if (training)
    for (const at::Tensor& x : inputs) x.requires_grad_(true);
  const values results = forward(values(inputs));
  if (training && last == last_input::is_copied) release_bytes(inputs.back());
  return std::make_unique<graph_run>(training ? std::move(inputs) : std::vector<at::Tensor>(), results, scope);
}

}  // namespace troupe::models
