#include "models/host/module_runner.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/tied_copies.hpp"
#include "models/host/dry_run.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/module_table.hpp"
#include "models/host/random_turn.hpp"
#include "models/layers/torch_device.hpp"
#include "models/layers/torch_dtype.hpp"
#include "models/layers/weight.hpp"
#include "models/layers/weight_work.hpp"

namespace troupe::models {
namespace {

class module_run final : public segment_run {
 public:
  module_run(at::Tensor input, at::Tensor result, std::vector<weight> parameters, bool all_used)
      : input_(std::move(input)),
        result_(std::move(result)),
        output_(without_gaps(result_.detach())),
        parameters_(std::move(parameters)),
        all_used_(all_used) {}

  [[nodiscard]] const at::Tensor& output() const override { return output_; }

  at::Tensor backward(const at::Tensor& gradient, gradient_sink& sink) override {
    at::Tensor of_input = differentiate(std::exchange(input_, {}), gradient);
    backward_weight(sink);
    return of_input;
  }

  // Autograd forms all gradients in one pass, so those of the parameters wait as they are.
  at::Tensor backward_input(const at::Tensor& gradient) override {
    const at::Tensor input = std::exchange(input_, {});
    at::Tensor of_input = differentiate(input, gradient);
    for (at::Tensor& g : gradients_) g = apart_from(g, input);
    output_ = at::Tensor();
    return of_input;
  }

  void backward_weight(gradient_sink& sink) override {
    TORCH_CHECK(differentiated_, "the weight part of a backward whose input part has not run");
    differentiated_ = false;
    const at::NoGradGuard no_grad;
    const sink_slot slot{&sink};
    auto next = gradients_.begin();
    for (const weight& w : parameters_) {
      gradient_writer writer(slot, w);
      if (next->defined()) {
        writer.out().copy_(next->is_sparse() ? next->to_dense() : *next);
      } else {
        TORCH_CHECK(!all_used_, "parameter ", w.name,
                    " got no gradient: wanted one, as zero_optimization.ignore_unused_parameters is false");
        writer.out().zero_();  // it was not used in this micro-batch
      }
      writer.commit();
      *next++ = at::Tensor();
    }
  }

 private:
  /// The gradient of the input; those of the parameters are kept.
  at::Tensor differentiate(const at::Tensor& input, const at::Tensor& gradient) {
    const at::Tensor result = std::exchange(result_, {});
    TORCH_CHECK(result.defined(), "backward of a unit that keeps no graph");
    std::vector<at::Tensor> wanted;
    for (const weight& w : parameters_) wanted.push_back(w.bound());
    if (input.requires_grad()) wanted.push_back(input);
    gradients_.resize(wanted.size());
    if (!wanted.empty() && result.requires_grad() && gradient.defined())
      gradients_ = torch::autograd::grad({result}, wanted, {gradient.to(result.scalar_type()).reshape(result.sizes())},
                                         /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
    differentiated_ = true;
    if (!input.requires_grad()) return {};
    at::Tensor of_input = std::move(gradients_.back());
    gradients_.pop_back();
    return without_gaps(of_input);
  }

  at::Tensor input_, result_, output_;
  std::vector<weight> parameters_;  // those that are trained
  bool all_used_, differentiated_ = false;
  std::vector<at::Tensor> gradients_;  // [of parameters_] once it is differentiated, until they are written
};

/// Of the latest step: a pipeline has several in flight.
class micro_batches_of_step {
 public:
  /// False if it is there.
  bool add(uint64_t step, uint32_t micro) {
    if (std::exchange(step_, step) != step) micros_.clear();
    return micros_.insert(micro).second;
  }

 private:
  std::optional<uint64_t> step_;
  std::set<uint32_t> micros_;
};

class module_runner final : public language_model {
 public:
  module_runner(module_model model, std::shared_ptr<const module_facts> facts)
      : model_(std::move(model)), facts_(std::move(facts)), table_(facts_->table), set_mode_(mode_switch(model_)) {
    for (const auto& u : model_.units) {
      buffers_.emplace_back();
      for (auto& b : parts_of(u).buffers) buffers_.back().push_back(std::move(b.tensor));
    }
    computed_.resize(model_.units.size());
  }

  [[nodiscard]] const core::model_table& table() const override { return table_; }
  void read_copies() override { table_ = core::with_copies(std::move(table_)); }
  [[nodiscard]] std::vector<at::Tensor> own_parameters() const override { return parameters_of(model_, table_); }

  std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t, const micro_batch& batch, const at::Tensor& input,
                                       const parameter_binding& parameters) override {
    TORCH_CHECK(batch.host != nullptr, "a host's own model wants a host's batch");
    if (std::exchange(training_, batch.training) != batch.training) set_mode_(batch.training);
    const at::AutoGradMode mode(batch.training);
    at::Tensor x = unit == 0 ? entering(batch.host->input) : input.detach();
    if (batch.training && x.is_floating_point() && trains_before(unit, parameters)) x.requires_grad_(true);
    std::vector<weight> trained;
    if (batch.training)
      for (uint32_t q : table_.units[unit].parameters)
        if (parameters.trainable(q)) trained.push_back({q, parameters.tensor(q), table_.parameters[q].name});
    at::Tensor y = compute(unit, x, batch);
    if (unit + 1 == model_.units.size()) y = loss_of(y, *batch.host);
    return std::make_unique<module_run>(std::move(x), std::move(y), std::move(trained),
                                        facts_->all_used_in == batch.micro);
  }

  std::vector<float> next_token_logits(const micro_batch&, const at::Tensor&, const parameter_binding&) override {
    TORCH_CHECK(false, "a host's own model generates no text");
  }

 private:
  [[nodiscard]] at::Tensor entering(const at::Tensor& input) const {
    const at::Device where = torch_device(facts_->device);
    return input.is_floating_point() ? input.detach().to(where, torch_dtype(facts_->type)) : input.detach().to(where);
  }

  // Whether the gradient of this unit's input is needed.
  [[nodiscard]] bool trains_before(uint32_t unit, const parameter_binding& parameters) const {
    const auto& units = table_.units;
    return std::any_of(units.begin(), units.begin() + unit, [&](const core::unit_info& u) {
      return std::any_of(u.parameters.begin(), u.parameters.end(), [&](uint32_t q) { return parameters.trainable(q); });
    });
  }

  at::Tensor compute(uint32_t unit, const at::Tensor& x, const micro_batch& batch) {
    const bool again = batch.training && !computed_[unit].add(batch.step, batch.micro);
    std::vector<at::Tensor> kept;
    if (again)
      for (const auto& b : buffers_[unit]) kept.push_back(b.clone());
    std::optional<random_turn> turn;
    if (facts_->draws[unit]) turn.emplace(random_key{batch.seed, batch.step, batch.micro, batch.rank, unit});
    at::Tensor y;
    try {
      y = model_.units[unit].forward(x);
    } catch (const std::exception& e) {
      throw std::runtime_error("unit '" + model_.units[unit].name + "', given " + shape_text(x) + ": " + line_of(e));
    }
    TORCH_CHECK(y.defined(), "unit '", model_.units[unit].name, "' gave nothing for ", shape_text(x));
    // As a module's own statistics change: what autograd has saved of the buffers is not outdated by it.
    const at::AutoDispatchBelowADInplaceOrView unseen;
    for (size_t i = 0; i < kept.size(); ++i) buffers_[unit][i].copy_(kept[i]);
    return y;
  }

  [[nodiscard]] at::Tensor loss_of(const at::Tensor& output, const host_batch& batch) const {
    at::Tensor loss;
    const at::Tensor wide = output.is_floating_point() ? output.to(sum_dtype(output.scalar_type())) : output;
    try {
      loss = model_.loss(wide, batch.target.defined() ? batch.target.to(wide.device()) : batch.target);
    } catch (const std::exception& e) {
      throw std::runtime_error("the loss, given " + shape_text(wide) + " and the target, " + shape_text(batch.target) +
                               ": " + line_of(e));
    }
    TORCH_CHECK(loss.defined() && loss.numel() == 1, "the loss is one number, got ", shape_text(loss));
    return loss.to(sum_dtype(loss.scalar_type())).reshape({});
  }

  module_model model_;
  std::shared_ptr<const module_facts> facts_;
  core::model_table table_;  // the facts', with copies where they are read
  std::function<void(bool)> set_mode_;
  bool training_ = true;                          // true: modules are in the factory's modes
  std::vector<std::vector<at::Tensor>> buffers_;  // [unit]
  std::vector<micro_batches_of_step> computed_;   // [unit]: that it has been trained on
};

}  // namespace

std::unique_ptr<language_model> run_modules(module_model model, std::shared_ptr<const module_facts> facts) {
  return std::make_unique<module_runner>(std::move(model), std::move(facts));
}

}  // namespace troupe::models
