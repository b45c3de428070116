// Recipes that make a unit's module only on the ranks that compute the unit: a factory, the units that share its
// module, and the forward of each. Owns the types of a host's modules, so that no other code depends on them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>

#include "models/host/unit_functions.hpp"

namespace torch::nn {
class Module;
}

namespace troupe::models {

/// A holder of a torch module, such as torch::nn::Linear.
template <class T>
concept module_holder = requires(T m) {
  m.ptr();
};

template <module_holder Holder>
auto module_of(const Holder& m) {  ///< returns the module in a holder such as torch::nn::Linear
  return m.ptr();
}
template <class Module>
std::shared_ptr<Module> module_of(std::shared_ptr<Module> m) {  ///< returns the argument, which is the module already
  return m;
}

/// A torch module, given as its holder or as a shared pointer.
template <class T>
concept held_module = requires(const T& m) {
  module_of(m);
};

/// A function without arguments that makes a torch module.
template <class T>
concept module_maker = !held_module<T> && requires(const T& make) {
  module_of(make());
};

/// Forward function of a unit that calls the module's own forward.
struct own_forward {
  template <class Module>
  auto operator()(Module& m, const at::Tensor& x) const -> decltype(m.forward(x)) {
    return m.forward(x);
  }
  template <class Module>
  auto operator()(Module& m, const named_values& x) const -> decltype(m.forward(x)) {
    return m.forward(x);
  }
};

/// A module after it was made, and the forward with which the unit computes.
struct built_module {
  std::shared_ptr<torch::nn::Module> module;
  unit_forward forward;
};

struct module_recipe {  ///< how to make the module and the forward of one unit
  std::string key;      ///< name under which units share one module; empty: the module belongs to this unit alone
  std::type_index type = typeid(void);
  std::function<std::shared_ptr<void>()> make;  ///< makes the module, whose type is `type`
  std::function<built_module(const std::shared_ptr<void>&)> use;
};

/// A factory of a module that several units of a rank share under the name `key`; each rank has its own module, with
/// the same values. Only the first unit's factory is called.
template <class Factory>
struct shared_module {
  std::string key;
  Factory factory;
};

/// Returns a factory for unit(): all units whose factories have the same `key` share one module, as DeepSpeed's tied
/// layers do.
template <module_maker Factory>
shared_module<Factory> shared(std::string key, Factory factory) {
  return {std::move(key), std::move(factory)};
}

/// Returns the recipe of a unit whose forward is `forward(module, x)`, where `from` makes the module.
template <class Factory, class Forward>
std::shared_ptr<const module_recipe> recipe_of(const shared_module<Factory>& from, Forward forward) {
  using module = typename decltype(module_of(from.factory()))::element_type;
  const auto use = [f = std::move(forward)](const std::shared_ptr<void>& made) {
    auto m = std::static_pointer_cast<module>(made);
    return built_module{m, [m, f](const named_values& x) mutable { return call_with(f, x, *m); }};
  };
  return std::make_shared<module_recipe>(module_recipe{
      from.key, typeid(module), [make = from.factory]() -> std::shared_ptr<void> { return module_of(make()); }, use});
}

}  // namespace troupe::models
