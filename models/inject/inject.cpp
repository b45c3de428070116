#include "models/inject/inject.hpp"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/text.hpp"
#include "models/inject/block.hpp"

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

/// The output of a forward, then gradients, with the names that messages give them.
using named_results = std::vector<std::pair<std::string, at::Tensor>>;

using named_inputs = std::vector<std::pair<std::string, at::Tensor>>;

/// Returns the output `y` and the gradients of `of`, for a direction that differs for each element of the output.
named_results results_of(const at::Tensor& y, const named_inputs& of) {
  named_results out = {{"its output", y.detach()}};
  std::vector<at::Tensor> wanted;
  for (const auto& [name, t] : of) wanted.push_back(t);
  if (wanted.empty() || !y.requires_grad()) return out;
  const at::Tensor direction = at::arange(1, y.numel() + 1, y.options().requires_grad(false)).sin().view(y.sizes());
  const auto gradients = torch::autograd::grad({y}, wanted, {direction}, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < of.size(); ++i) out.emplace_back("the gradient of " + of[i].first, gradients[i]);
  return out;
}

at::Tensor dense(const at::Tensor& t) { return t.is_sparse() ? t.to_dense() : t; }

double largest_in(const at::Tensor& t) {
  return t.defined() && t.numel() > 0 ? dense(t).abs().max().to(at::kDouble).item<double>() : 0;
}

/// Returns which of two equal lists of results differ first by more than largest_difference, and by how much; nullopt
/// if none does. A gradient is compared with its own largest element, or with a tenth of that of all gradients where
/// this is more: the gradient of a key's bias is 0 but for rounding.
std::optional<std::pair<std::string, double>> difference_of(const named_results& got, const named_results& wanted) {
  if (got.size() != wanted.size()) return std::pair(std::string("the number of its gradients"), 1.0);
  double most = 0;
  for (size_t i = 1; i < wanted.size(); ++i) most = std::max(most, largest_in(wanted[i].second));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor &mine = got[i].second, &theirs = wanted[i].second;
    if (!mine.defined() && !theirs.defined()) continue;
    if (mine.defined() && theirs.defined() && mine.sizes() != theirs.sizes()) return std::pair(wanted[i].first, 1.0);
    const at::Tensor apart = !mine.defined()     ? theirs
                             : !theirs.defined() ? mine
                                                 : dense(mine) - dense(theirs);
    const double scale = std::max(largest_in(theirs), i > 0 ? most / 10 : 0), by = largest_in(apart);
    if (scale > 0 ? !(by <= largest_difference * scale) : !(by <= 0))
      return std::pair(wanted[i].first, scale > 0 ? by / scale : by);
  }
  return std::nullopt;
}

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
      const named_results whole = of_model();
      record();
      for (const call& c : calls_) TROUPE_TRY(compare(c));
      own_.sit();
      const auto differs = difference_of(of_model(), whole);
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

  named_results of_model() {
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
    const named_results theirs = of_call(c, c.place->original), mine = of_call(c, c.place->own);
    if (const auto differs = difference_of(mine, theirs))
      return core::fail(wrong(core::in_quotes(c.place->path), *differs));
    return {};
  }

  named_results of_call(const call& c, const tensors_function& f) {
    named_inputs of = weights_;
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
  named_inputs weights_;
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
