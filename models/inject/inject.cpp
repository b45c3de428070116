#include "models/inject/inject.hpp"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/any.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <set>
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

/// The modules that the trial computes, with their names: the host's model under the empty name, and the modules in its
/// slots.
using root_modules = std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>;

/// Returns the parameters of the modules, each once, with their paths.
named_tensors parameters_of(const root_modules& roots) {
  named_tensors out;
  std::set<const c10::TensorImpl*> seen;
  for (const auto& [name, root] : roots)
    for (const auto& item : root->named_parameters())
      if (seen.insert(item.value().unsafeGetTensorImpl()).second)
        out.emplace_back(name.empty() ? item.key() : name + "." + item.key(), item.value());
  return out;
}

/// Restores the states of torch's generators and the buffers of modules when it is destroyed; rewind() restores the
/// generators earlier. The generators are those of the CPU and of the CUDA devices with parameters.
class unchanged_state {
 public:
  unchanged_state(const root_modules& roots, const named_tensors& parameters) {
    std::vector<c10::Device> devices{c10::Device(at::kCPU)};
    for (const auto& [name, t] : parameters)
      if (t.is_cuda() && std::ranges::find(devices, t.device()) == devices.end()) devices.push_back(t.device());
    for (const c10::Device& device : devices) {
      at::Generator generator = at::globalContext().defaultGenerator(device);
      const std::scoped_lock lock(generator.mutex());
      random_.emplace_back(generator, generator.get_state());
    }
    for (const auto& [name, root] : roots)
      for (const at::Tensor& b : root->buffers()) {
        buffers_.push_back(b);
        values_.push_back(b.clone());
      }
  }
  ~unchanged_state() {
    rewind();
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < values_.size(); ++i) buffers_[i].copy_(values_[i]);
  }
  unchanged_state(const unchanged_state&) = delete;
  unchanged_state& operator=(const unchanged_state&) = delete;

  void rewind() const {
    for (const auto& [of, state] : random_) {
      at::Generator generator = of;
      const std::scoped_lock lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  std::vector<at::Tensor> buffers_, values_;
  std::vector<std::pair<at::Generator, at::Tensor>> random_;
};

/// Sets parameters that are all 0 to random values and modules to training mode; the destructor restores both. With
/// parameters that are all 0, such as new query weights, a wrong number of heads would give equal results; a dropout in
/// a function of the host acts in training mode only.
class revealing_state {
 public:
  revealing_state(const root_modules& roots, const named_tensors& parameters) {
    for (const auto& [name, root] : roots)
      for (const auto& m : root->modules()) modes_.emplace_back(m, m->is_training());
    for (const auto& [name, root] : roots) root->train();
    const at::NoGradGuard no_grad;
    for (const auto& [name, t] : parameters) {
      if (t.numel() == 0 || t.any().is_nonzero()) continue;
      zeros_.emplace_back(t, t.detach());
      const double scale = t.dim() > 1 ? 1 / std::sqrt(static_cast<double>(t.size(-1))) : 0.1;
      t.set_data(at::randn_like(t).mul(scale));
    }
  }
  ~revealing_state() {
    for (const auto& [t, own] : zeros_) t.set_data(own);
    for (const auto& [m, trains] : modes_) m->train(trains);  // parents come before their children
  }
  revealing_state(const revealing_state&) = delete;
  revealing_state& operator=(const revealing_state&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<nn::Module>, bool>> modes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> zeros_;  // parameters that were all 0, and their original tensors
};

class injection_trial {  ///< compares a host's modules with those that replace them, on the batch of the probe
 public:
  injection_trial(root_modules roots, own_layers& own, const std::function<at::Tensor()>& probe)
      : own_(own),
        probe_(probe),
        roots_(std::move(roots)),
        parameters_(parameters_of(roots_)),
        state_(roots_, parameters_) {
    for (const auto& [name, t] : parameters_)
      if (t.requires_grad()) weights_.emplace_back(core::in_quotes(name), t);
  }

  core::result<void> run() {
    const at::AutoGradMode mode(true);
    try {
      const named_tensors whole = of_model();
      record();
      TROUPE_TRY(check_calls());
      TROUPE_TRY(compare_all());
      doing_ = "the probe, with Troupe's layers,";
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

  /// Runs the probe with modules that record their inputs and compute the same as the host's modules.
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

  /// Checks that the probe called each module that is to be replaced, and each module with attention with at least two
  /// tokens.
  [[nodiscard]] core::result<void> check_calls() const {
    for (const own_layers::place& p : own_.places())
      if (std::ranges::none_of(calls_, [&](const call& c) { return c.place == &p; }))
        return core::fail(refused_injection(
            fmt::format("the probe does not call {}, which therefore cannot be compared; let it call the module, or "
                        "name the module in `leave`",
                        core::in_quotes(p.path))));
    for (const call& c : calls_)
      if (c.place->attends && c.inputs.front().dim() == 3 && c.inputs.front().size(1) < 2)
        return core::fail(refused_injection(
            fmt::format("the probe calls {} with one token a sample, which shows nothing of its attention; wanted at "
                        "least 2",
                        core::in_quotes(c.place->path))));
    return {};
  }

  /// Compares all calls of replaced modules, first with the recorded inputs, then with a hundredth of them, with which
  /// a wrong epsilon of a norm changes the result.
  core::result<void> compare_all() {
    const revealing_state shown(roots_, parameters_);
    for (const double factor : {1.0, 0.01})
      for (const call& c : calls_) TROUPE_TRY(compare(c, factor));
    return {};
  }

  core::result<void> compare(const call& c, double factor) {
    const std::string what = core::in_quotes(c.place->path) + (factor < 1 ? ", for a hundredth of its input," : "");
    doing_ = "the trial of " + what;
    const named_tensors theirs = of_call(c, factor, c.place->original), mine = of_call(c, factor, c.place->own);
    if (const auto differs = first_difference(mine, theirs)) return core::fail(wrong(what, *differs));
    return {};
  }

  named_tensors of_call(const call& c, double factor, const tensors_function& f) {
    named_tensors of = weights_;
    std::vector<at::Tensor> given;
    for (const at::Tensor& t : c.inputs) {
      given.push_back(t);
      if (!t.is_floating_point()) continue;
      const at::Tensor leaf = t.mul(factor).requires_grad_(true);
      of.emplace_back("its input", leaf);
      given.back() = leaf.clone();  // a host's module may overwrite its input
    }
    state_.rewind();
    return results_of(f(given), of);
  }

  static core::error wrong(const std::string& what, const std::pair<std::string, double>& differs) {
    return refused_injection(fmt::format(
        "{} differs from the host's: {} by {} of its largest value, wanted at most {}; the host's modules are back. "
        "Correct the policy (order, norm, packing, act, causal, rotates, heads, epsilon), or name the module in "
        "`leave`, as one that draws random numbers in training",
        what, differs.first, core::text_of("%.1e", differs.second), core::text_of("%.0e", largest_difference)));
  }

  own_layers& own_;
  const std::function<at::Tensor()>& probe_;
  root_modules roots_;
  named_tensors parameters_;  // all parameters, with their paths
  unchanged_state state_;
  named_tensors weights_;  // parameters that are trained, with their paths in quotes
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

core::result<root_modules> roots_of(const std::shared_ptr<nn::Module>& model,
                                    const std::vector<own_layers::slot>& slots) {
  if (model == nullptr) return core::fail(refused_injection("wanted a module, got none"));
  root_modules out;
  out.emplace_back("", model);
  for (const own_layers::slot& s : slots) {
    if (s.any == nullptr || s.any->is_empty())
      return core::fail(
          refused_injection(fmt::format("slot '{}': wanted an AnyModule that holds a module, got none", s.name)));
    out.emplace_back(s.name, s.any->ptr());
  }
  return out;
}

core::result<void> check_types(const root_modules& roots) {
  for (const auto& [name, t] : parameters_of(roots))
    if (t.scalar_type() != at::kFloat && t.scalar_type() != at::kDouble)
      return core::fail(refused_injection(
          fmt::format("'{}': wanted fp32 or fp64, in which values are compared, got {}; convert the model after the "
                      "injection",
                      name, c10::toString(t.scalar_type()))));
  return {};
}

}  // namespace

core::result<own_layers> inject(const std::shared_ptr<nn::Module>& model, const layer_policy& policy,
                                const std::function<at::Tensor()>& probe, const std::vector<own_layers::slot>& slots) {
  if (!policy.refused.empty())
    return core::fail(refused_injection(fmt::format("policy '{}': {}", policy.name, policy.refused)));
  TROUPE_ASSIGN(root_modules roots, roots_of(model, slots));
  TROUPE_TRY(check_types(roots));
  own_layers own(model, /*is_called_alone=*/false, &policy, slots);
  if (!policy.paths.empty() && own.blocks() == 0) {
    const std::string nearest = own.nearest().empty() ? std::string() : "; the nearest is " + own.nearest();
    return core::fail(refused_injection(
        fmt::format("policy '{}' matches no module{}{}", policy.name, nearest, best_row_for(*model))));
  }
  if (const auto tried = injection_trial(std::move(roots), own, probe).run(); !tried) {
    own.revert();
    return core::fail(tried.error());
  }
  return core::result<own_layers>(std::move(own));
}

}  // namespace troupe::models
