#include "models/inject/inject.hpp"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/text.hpp"
#include "models/inject/block.hpp"
#include "models/inject/comparison.hpp"

namespace troupe::models {
namespace {

namespace nn = torch::nn;

core::error refused_injection(const std::string& what) { return {core::error_kind::bad_input, "injection: " + what}; }

std::string first_line_of(const std::exception& e) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : e.what();
  return text.substr(0, text.find('\n'));
}

/// Restores the state of torch's generator and the buffers of a model when it is destroyed, and the state of the
/// generator also on request.
class unchanged_state {
 public:
  explicit unchanged_state(const nn::Module& model) : buffers_(model.buffers()) {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    const std::scoped_lock lock(generator.mutex());
    random_ = generator.get_state();
    for (const at::Tensor& b : buffers_) values_.push_back(b.clone());
  }
  ~unchanged_state() {
    rewind();
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < values_.size(); ++i) buffers_[i].copy_(values_[i]);
  }
  unchanged_state(const unchanged_state&) = delete;
  unchanged_state& operator=(const unchanged_state&) = delete;

  void rewind() const {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    const std::scoped_lock lock(generator.mutex());
    generator.set_state(random_);
  }

 private:
  std::vector<at::Tensor> buffers_, values_;
  at::Tensor random_;
};

class injection_trial {  ///< compares a host's modules with those that replace them, on the batch of the probe
 public:
  injection_trial(const nn::Module& model, own_layers& own, const std::function<at::Tensor()>& probe)
      : own_(own), probe_(probe), state_(model) {
    for (const auto& item : model.named_parameters())
      if (item.value().requires_grad()) weights_.emplace_back(core::in_quotes(item.key()), item.value());
  }

  core::result<void> run() {
    const at::AutoGradMode mode(true);
    try {
      const named_tensors whole = of_model();
      record();
      for (const call& c : calls_) TROUPE_TRY(compare(c));
      own_.sit();
      const auto differs = first_difference(of_model(), whole);
      if (differs) return core::fail(wrong("the model", *differs));
      return {};
    } catch (const std::exception& e) {
      return core::fail(refused_injection(fmt::format("{} failed: {}", doing_, first_line_of(e))));
    }
  }

 private:
  struct call {  // a call of a module that is to be replaced, in the order of the forward
    const own_layers::place* place;
    std::vector<at::Tensor> inputs;
  };

  named_tensors of_model() {
    state_.rewind();
    return results_of(probe_(), weights_);
  }

  /// Runs the probe with modules that record their inputs and compute as the host's.
  void record() {
    doing_ = "the probe, while the inputs of modules were recorded,";
    for (const own_layers::place& p : own_.places())
      p.put([this, &p](const std::vector<at::Tensor>& x) {
        std::vector<at::Tensor> inputs;
        for (const at::Tensor& t : x) inputs.push_back(t.detach().clone());
        calls_.push_back({&p, std::move(inputs)});
        return p.original(x);
      });
    const auto back = [](const own_layers* own) {
      for (const own_layers::place& p : own->places()) p.revert();
    };
    const std::unique_ptr<const own_layers, decltype(back)> recording(&own_, back);
    state_.rewind();
    probe_();
  }

  core::result<void> compare(const call& c) {
    doing_ = fmt::format("the trial of {}", core::in_quotes(c.place->path));
    const named_tensors theirs = of_call(c, c.place->original), mine = of_call(c, c.place->own);
    if (const auto differs = first_difference(mine, theirs))
      return core::fail(wrong(core::in_quotes(c.place->path), *differs));
    return {};
  }

  named_tensors of_call(const call& c, const tensors_function& f) {
    named_tensors of = weights_;
    std::vector<at::Tensor> given;
    for (const at::Tensor& t : c.inputs) {
      given.push_back(t);
      if (!t.is_floating_point()) continue;
      const at::Tensor leaf = t.clone().requires_grad_(true);
      of.emplace_back("its input", leaf);
      given.back() = leaf.clone();  // a host's module may overwrite its input
    }
    state_.rewind();
    return results_of(f(given), of);
  }

  static core::error wrong(const std::string& what, const std::pair<std::string, double>& differs) {
    return refused_injection(fmt::format(
        "{} differs from the host's: {} by {} of its largest value, wanted at most {}; the host's modules are back. "
        "Correct the policy (order, norm, packing, act, causal, rotates, heads), or name the module in `leave`",
        what, differs.first, core::text_of("%.1e", differs.second), core::text_of("%.0e", largest_difference)));
  }

  own_layers& own_;
  const std::function<at::Tensor()>& probe_;
  unchanged_state state_;
  named_tensors weights_;
  std::vector<call> calls_;
  std::string doing_ = "the probe";
};

/// Returns the name of the row whose blocks most modules of `model` have, and how many; empty if no row fits.
std::string best_row_for(const nn::Module& model) {
  std::string out;
  size_t most = 0;
  for (const layer_policy& row : layer_policies()) {
    if (!row.refused.empty()) continue;
    size_t count = 0;
    for (const auto& m : model.modules()) count += block_of(m, row).matches ? 1 : 0;
    if (count > most) {
      most = count;
      out = fmt::format("; policy '{}' matches {} modules", row.name, count);
    }
  }
  return out;
}

core::result<void> check_types(const nn::Module& model) {
  for (const auto& item : model.named_parameters())
    if (item.value().scalar_type() != at::kFloat && item.value().scalar_type() != at::kDouble)
      return core::fail(refused_injection(
          fmt::format("'{}': wanted fp32 or fp64, in which values are compared, got {}; convert the model after the "
                      "injection",
                      item.key(), c10::toString(item.value().scalar_type()))));
  return {};
}

}  // namespace

core::result<own_layers> inject(const std::shared_ptr<nn::Module>& model, const layer_policy& policy,
                                const std::function<at::Tensor()>& probe, const std::vector<own_layers::slot>& slots) {
  if (!policy.refused.empty())
    return core::fail(refused_injection(fmt::format("policy '{}': {}", policy.name, policy.refused)));
  TROUPE_TRY(check_types(*model));
  own_layers own(model, /*is_called_alone=*/false, &policy, slots);
  if (!policy.paths.empty() && own.blocks() == 0) {
    const std::string nearest = own.nearest().empty() ? std::string() : "; the nearest is " + own.nearest();
    return core::fail(refused_injection(
        fmt::format("policy '{}' matches no module{}{}", policy.name, nearest, best_row_for(*model))));
  }
  if (const auto tried = injection_trial(*model, own, probe).run(); !tried) {
    own.revert();
    return core::fail(tried.error());
  }
  return core::result<own_layers>(std::move(own));
}

}  // namespace troupe::models
