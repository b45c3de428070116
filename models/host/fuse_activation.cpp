#include "models/host/fuse_activation.hpp"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <memory>
#include <set>
#include <typeindex>
#include <utility>
#include <vector>

namespace troupe::models {
namespace {

namespace nn = torch::nn;

/// Function that computes an activation of `z`; no other code may refer to the tensor, because the function may
/// overwrite it.
using activation = std::function<at::Tensor(at::Tensor z)>;

/// Computes the activation in place, except if `z` is a view, for which autograd would have to copy the gradient.
template <at::Tensor& (*in_place)(at::Tensor&), at::Tensor (*apart)(const at::Tensor&)>
at::Tensor over(at::Tensor z) {
  return z.is_view() ? apart(z) : in_place(z);
}

/// True if the activation's backward reads only its result.
bool reads_its_result(std::type_index type) { return type == typeid(nn::ReLUImpl) || type == typeid(nn::TanhImpl); }
/// True if the activation's backward reads its input.
bool reads_its_input(std::type_index type) { return type == typeid(nn::GELUImpl) || type == typeid(nn::SiLUImpl); }

activation activation_of(const nn::Module& m) {
  if (typeid(m) == typeid(nn::ReLUImpl)) return over<at::relu_, at::relu>;
  if (typeid(m) == typeid(nn::TanhImpl)) return over<at::tanh_, at::tanh>;
  if (typeid(m) == typeid(nn::SiLUImpl)) return [](const at::Tensor& z) { return at::silu(z); };
  if (const auto* gelu = dynamic_cast<const nn::GELUImpl*>(&m))
    return [how = gelu->options.approximate()](const at::Tensor& z) { return at::gelu(z, how); };
  return {};
}

activation activation_made(const module_recipe& by) {
  const std::shared_ptr<void> made = by.make();
  TORCH_CHECK(made != nullptr, "the factory of an activation returned null");
  const auto as = [&]<class Module>(std::type_identity<Module>) {
    return by.type == typeid(Module) ? activation_of(*std::static_pointer_cast<Module>(made)) : activation();
  };
  for (activation f : {as(std::type_identity<nn::ReLUImpl>()), as(std::type_identity<nn::TanhImpl>()),
                       as(std::type_identity<nn::GELUImpl>()), as(std::type_identity<nn::SiLUImpl>())})
    if (f) return f;
  return {};
}

/// An entry of a torch Sequential that computes a linear layer and the activation after it; the original linear layer
/// stays registered and owns the parameters.
struct fused_entry : nn::Module {
  fused_entry(std::shared_ptr<nn::LinearImpl> layer, activation then)
      : layer_(std::move(layer)), then_(std::move(then)) {}
  at::Tensor forward(const at::Tensor& x) { return then_(layer_->forward(x)); }

 private:
  std::shared_ptr<nn::LinearImpl> layer_;
  activation then_;
};

template <class Module>
std::shared_ptr<Module> exactly_a(const std::shared_ptr<nn::Module>& m) {
  return m != nullptr && typeid(*m) == typeid(Module) ? std::dynamic_pointer_cast<Module>(m) : nullptr;
}

using seen_modules = std::set<const nn::Module*>;

/// Fuses each linear layer in a Sequential with the activation in the next entry, if that activation's backward reads
/// only its result. Does nothing if `others`, the modules that other code may call, contains the Sequential. Returns
/// the number of fused pairs.
size_t fuse_entries(nn::SequentialImpl& s, const seen_modules& others) {
  if (others.contains(&s)) return 0;
  size_t fused = 0;
  for (auto entry = s.begin(); entry != s.end(); ++entry) {
    const auto layer = exactly_a<nn::LinearImpl>(entry->ptr());
    const auto next = entry + 1;
    if (layer == nullptr || next == s.end()) continue;
    const auto then = activation_of(*next->ptr());
    if (!then || !reads_its_result(typeid(*next->ptr()))) continue;
    *entry = nn::AnyModule(std::make_shared<fused_entry>(layer, then));
    *next = nn::AnyModule(std::make_shared<nn::IdentityImpl>());
    ++fused;
  }
  return fused;
}

/// Adds to `out` all modules below `m` that the host's forward, or another module's own forward, may call directly, and
/// whose entries must therefore not be changed.
void note_callers(const std::shared_ptr<nn::Module>& m, bool calls_own, seen_modules& out) {
  if (m == nullptr) return;
  const bool is_called_whole = calls_own && exactly_a<nn::SequentialImpl>(m) != nullptr;
  for (const auto& each : m->modules(/*include_self=*/!is_called_whole)) out.insert(each.get());
}

class fusion {
 public:
  fusion(module_model& m, bool recomputes) : units_(m.units), recomputes_(recomputes) {}

  size_t units() {
    size_t fused = 0;
    for (size_t u = 0; u + 1 < units_.size(); ++u)
      if (is_linear(units_[u]) && is_worth_joining(units_[u + 1])) {
        join(units_[u], units_[u + 1]);
        units_.erase(units_.begin() + static_cast<ptrdiff_t>(u) + 1);
        ++fused;
      }
    return fused;
  }

  size_t entries() {
    seen_modules others;
    for (const module_unit& u : units_) note_callers(u.module, u.calls_own, others);
    size_t fused = 0;
    for (const module_unit& u : units_)
      if (const auto s = exactly_a<nn::SequentialImpl>(u.module); s != nullptr && u.calls_own)
        fused += fuse_entries(*s, others);
    return fused;
  }

  /// Changes the recipes of units such that a Sequential that a factory makes later is fused right after it is made.
  /// Returns the number of units with such a recipe.
  size_t factories() {
    size_t count = 0;
    for (module_unit& u : units_) {
      if (u.recipe == nullptr || u.recipe->type != typeid(nn::SequentialImpl) || !all_call_own(u.recipe->key)) continue;
      if (!u.calls_own) continue;
      auto recipe = std::make_shared<module_recipe>(*u.recipe);
      recipe->use = [use = u.recipe->use](const std::shared_ptr<void>& made) {
        built_module out = use(made);
        if (const auto s = exactly_a<nn::SequentialImpl>(out.module)) fuse_entries(*s, {});
        return out;
      };
      u.recipe = std::move(recipe);
      ++count;
    }
    return count;
  }

 private:
  static bool is_linear(const module_unit& u) {
    if (!u.calls_own) return false;
    return u.recipe != nullptr ? u.recipe->type == typeid(nn::LinearImpl)
                               : exactly_a<nn::LinearImpl>(u.module) != nullptr;
  }
  [[nodiscard]] bool is_worth_joining(const module_unit& u) const {
    if (!u.calls_own || (u.recipe == nullptr && u.module == nullptr)) return false;
    const std::type_index type = u.recipe != nullptr ? u.recipe->type : std::type_index(typeid(*u.module));
    return reads_its_result(type) || (recomputes_ && reads_its_input(type));
  }
  [[nodiscard]] bool all_call_own(const std::string& key) const {
    return key.empty() || std::ranges::all_of(units_, [&](const module_unit& u) {
             return u.recipe == nullptr || u.recipe->key != key || u.calls_own;
           });
  }

  static unit_forward forward_of(const std::shared_ptr<nn::Module>& module, activation then) {
    return [layer = std::static_pointer_cast<nn::LinearImpl>(module), then = std::move(then)](const at::Tensor& x) {
      return then(layer->forward(x));
    };
  }

  static void join(module_unit& linear, const module_unit& then) {
    const bool is_given = linear.forward_flops > 0 && then.forward_flops > 0;
    linear.forward_flops = is_given ? linear.forward_flops + then.forward_flops : linear.forward_flops;
    linear.calls_own = false;
    const auto behind = [module = then.module, by = then.recipe] {
      return by != nullptr ? activation_made(*by) : activation_of(*module);
    };
    if (linear.recipe == nullptr) {
      linear.forward = forward_of(linear.module, behind());
      return;
    }
    auto recipe = std::make_shared<module_recipe>(*linear.recipe);
    recipe->use = [use = linear.recipe->use, behind](const std::shared_ptr<void>& made) {
      built_module out = use(made);
      out.forward = forward_of(out.module, behind());
      return out;
    };
    linear.recipe = std::move(recipe);
  }

  std::vector<module_unit>& units_;
  bool recomputes_;
};

}  // namespace

std::string fuse_activations(module_model& m, const unit_surroundings& s) {
  fusion f(m, s.recomputes);
  std::vector<std::string> did;
  const auto add = [&](size_t n, const std::string& one, const std::string& many) {
    if (n > 0) did.push_back(fmt::format("{}{}", n, n == 1 ? one : many));
  };
  const bool units_stay = s.tensor > 1 || s.units_are_numbered;
  if (!units_stay)
    add(f.units(), " unit joins the linear layer before it", " units join the linear layers before them");
  add(f.entries(), " entry of a Sequential joins its linear layer", " entries of Sequentials join their linear layers");
  add(f.factories(), " Sequential is looked at when it is built", " Sequentials are looked at when they are built");
  std::string out;
  for (const std::string& x : did) out += (out.empty() ? "" : ", ") + x;
  if (units_stay)
    out += std::string(out.empty() ? "" : "; ") +
           (s.tensor > 1 ? "units stay apart over tensor ranks" : "units stay apart, as pipeline.partition names them");
  return out;
}

}  // namespace troupe::models
