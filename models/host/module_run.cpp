#include "models/host/module_run.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "models/host/dry_run.hpp"
#include "models/segment/weight_work.hpp"

namespace troupe::models {
namespace {

/// Gives buffers, during its lifetime, the values that they had after this micro-batch's forward, for the backward;
/// then the current values return.
class buffers_as_then {
 public:
  explicit buffers_as_then(const std::vector<kept_buffer>& then) {
    for (const kept_buffer& b : then) {
      now_.push_back({b.buffer, b.buffer.detach(), b.buffer._version()});
      put(b);
    }
  }
  ~buffers_as_then() {
    for (const kept_buffer& b : now_) put(b);
  }
  buffers_as_then(const buffers_as_then&) = delete;
  buffers_as_then& operator=(const buffers_as_then&) = delete;

 private:
  static void put(const kept_buffer& b) {
    b.buffer.set_data(b.values);
    b.buffer.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(static_cast<uint32_t>(b.version)));
  }
  std::vector<kept_buffer> now_;
};

class module_run final : public segment_run {
 public:
  explicit module_run(unit_run run) : run_(std::move(run)) {
    std::vector<at::Tensor> outputs;
    for (const at::Tensor& t : run_.results) outputs.push_back(without_gaps(t.detach()));
    outputs_ = values(std::move(outputs));
  }

  [[nodiscard]] const values& outputs() const override { return outputs_; }

  void release_outputs() override {
    // An output that is not a summand may be the result of the host's last operation, which backward may read.
    if (!run_.is_summand) return;
    outputs_ = {};
    for (at::Tensor& t : run_.results)
      if (t.requires_grad()) t.set_data(t.detach().new_empty({1}).expand(t.sizes()));
  }

  values backward(const values& gradients, gradient_sink& sink) override {
    values of_inputs = differentiate(std::exchange(run_.inputs, {}), gradients);
    backward_weight(sink);
    return of_inputs;
  }

  // Autograd computes all gradients in one pass, so the gradients of the parameters are kept until they are written.
  values backward_input(const values& gradients) override {
    const auto inputs = std::exchange(run_.inputs, {});
    values of_inputs = differentiate(inputs, gradients);
    for (at::Tensor& g : gradients_)
      for (const at::Tensor& input : inputs) g = apart_from(g, input);
    outputs_ = {};
    return of_inputs;
  }

  void backward_weight(gradient_sink& sink) override {
    TORCH_CHECK(differentiated_, "the weight part of a backward whose input part has not run");
    differentiated_ = false;
    const at::NoGradGuard no_grad;
    const sink_slot slot{&sink};
    auto next = gradients_.begin();
    for (const weight& w : run_.parameters) {
      gradient_writer writer(slot, w);
      if (next->defined()) {
        writer.out().copy_(next->is_sparse() ? next->to_dense() : *next);
      } else {
        TORCH_CHECK(!run_.all_used, "parameter ", w.name,
                    " got no gradient: use it in every step, or set zero_optimization.ignore_unused_parameters: true");
        writer.out().zero_();  // a parameter that this micro-batch did not use has gradient 0
      }
      writer.commit();
      *next++ = at::Tensor();
    }
  }

 private:
  /// Runs autograd. Returns the gradients of the inputs, undefined for inputs that do not require one; stores those of
  /// the parameters in gradients_.
  values differentiate(const std::vector<at::Tensor>& inputs, const values& gradients) {
    TORCH_CHECK(!run_.results.empty(), "backward of a unit that keeps no graph");
    std::vector<at::Tensor> wanted, from, with;
    for (const weight& w : run_.parameters) wanted.push_back(w.bound());
    for (const at::Tensor& x : inputs)
      if (x.requires_grad()) wanted.push_back(x);
    const auto results = std::exchange(run_.results, {});
    for (size_t i = 0; i < results.size() && i < gradients.size(); ++i) {
      if (!results[i].requires_grad() || !gradients[i].defined()) continue;
      from.push_back(results[i]);
      with.push_back(gradients[i].to(results[i].scalar_type()).reshape(results[i].sizes()));
    }
    gradients_.resize(wanted.size());
    const buffers_as_then as_then(std::exchange(run_.buffers, {}));
    if (!wanted.empty() && !from.empty())
      gradients_ = torch::autograd::grad(from, wanted, with, /*retain_graph=*/false, /*create_graph=*/false,
                                         /*allow_unused=*/true);
    differentiated_ = true;
    std::vector<at::Tensor> of_inputs;
    auto next = gradients_.begin() + static_cast<ptrdiff_t>(run_.parameters.size());
    for (const at::Tensor& x : inputs)
      of_inputs.push_back(x.requires_grad() ? without_gaps(std::move(*next++)) : at::Tensor());
    gradients_.resize(run_.parameters.size());
    return values(std::move(of_inputs));
  }

  unit_run run_;
  values outputs_;
  bool differentiated_ = false;
  std::vector<at::Tensor> gradients_;  // [index in parameters]: gradient, between autograd and its writing
};

}  // namespace

std::unique_ptr<segment_run> run_of(unit_run run) { return std::make_unique<module_run>(std::move(run)); }

}  // namespace troupe::models
