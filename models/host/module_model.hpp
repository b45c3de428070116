// The model of a program that embeds Troupe (the host): torch::nn modules in order, each with a forward from tensors to
// tensors, and a loss. Owns the host's description; prepared_modules and actors/ derive the table and plan from it.
//
//   module_model make() {
//     torch::nn::Linear in(784, 256), out(256, 10);
//     return {{unit("in", in), unit("relu", [](const at::Tensor& x) { return x.relu(); }), unit("out", out)},
//             [](const at::Tensor& y, const at::Tensor& target) { return at::mse_loss(y, target); }};
//   }
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/host/module_recipe.hpp"
#include "models/inject/injection.hpp"

namespace troupe::models {

/// A unit: a module (a layer, a block) whose parameters are gathered, used and released together, and its forward. Its
/// output is the next unit's input.
struct module_unit {
  std::string name;  ///< name of the unit, unique in the model; parameters are named `name.parameter`
  std::shared_ptr<torch::nn::Module> module;  ///< module of the unit; null if it has no parameters, or is not built yet
  unit_forward forward;
  /// Flops of a forward of one micro-batch; 0: a dry run counts those of products and convolutions.
  double forward_flops = 0;
  /// Makes module and forward, only on ranks that compute the unit; null: the host made them.
  std::shared_ptr<const module_recipe> recipe{};
  bool calls_own = false;  ///< true if `forward` only calls the module's own forward
  /// Number of the unit from which its random numbers are seeded: its position in the list that the factory returned,
  /// even after a pass has moved the unit; nullopt: its current position.
  std::optional<uint32_t> place{};
};

/// A host's model as a list of units and a loss. The factory makes parameters on the CPU in any floating type; the run
/// converts them and the floating buffers to its own type and shards them. A module, or a single tensor, that is in
/// several units is shared between them. Parameters without requires_grad are not trained. Each rank has its own
/// buffers: running statistics are those of its own micro-batches, as in data parallelism without synchronised norms.
struct module_model {
  std::vector<module_unit> units;
  loss_function loss;
  /// Rules by which the layers of units are split over tensor-parallel ranks; null: no layer is split, and a run with
  /// several tensor-parallel ranks is refused.
  std::shared_ptr<const injection_policy> policy{};
};

/// Returns the number from which the random numbers of unit `u` are seeded.
inline uint32_t place_of(const module_model& model, size_t u) {
  return model.units[u].place.value_or(static_cast<uint32_t>(u));
}

/// Returns the model with `policy`: a run with tensor-parallel ranks splits the layers of the model's units by its
/// rules (models/inject/injection.hpp). Must be called on the factory's model, before a session has it; with one
/// tensor-parallel rank its modules do not change.
module_model inject(module_model model, injection_policy policy);

/// Returns for each layer whether it would be split over `degree` ranks and why; builds units that have factories.
/// Errors (bad_input): a rule that matches no layer that it could cut, and those of injection.
core::result<std::vector<injected_layer>> injected_layers(const module_model& model, uint32_t degree);

/// Makes the modules of all units that are not built yet, for a host that computes with the model itself, without a
/// session. Throws what the factories throw, and if units share modules of different types under one key.
void build(module_model& model);

/// Function of the host that makes the model. It is called once for each rank of the process, with torch's generator
/// seeded equally. All calls must return the same structure; training starts from the values of the first call's model.
/// Units with factories of their own are built later: once for the dry run, one at a time, and once on each rank that
/// computes them.
using module_factory = std::function<module_model()>;

/// Function of the host that returns micro-batch number `micro` of optimizer step `step` (from 0) for `rank`. It is
/// called before the batch is needed, on another thread than the modules', one call at a time, with torch's generator
/// seeded from the run's seed and the three arguments, so the batch may be drawn at random and is the same in every
/// run. Must return within a minute.
using host_batches = std::function<host_batch(uint64_t step, uint32_t micro, uint32_t rank)>;

/// Returns a unit that computes `forward(module, x)`, a function of the host that calls the module; for example one
/// that returns the first of a GRU's results.
template <held_module Module, class Forward>
module_unit unit(std::string name, const Module& module, Forward forward) {
  auto m = module_of(module);
  return {std::move(name),
          m,
          [m, f = std::move(forward)](const named_values& x) mutable { return call_with(f, x, *m); },
          0,
          {},
          std::is_same_v<Forward, own_forward>};
}

/// Returns a unit that calls the module's own forward, which takes and returns one tensor or named values.
template <held_module Module>
module_unit unit(std::string name, const Module& module) {
  return unit(std::move(name), module, own_forward{});
}

/// Returns a unit that consists of a function and has no parameters.
template <class Forward>
requires(!held_module<Forward> && !module_maker<Forward>) module_unit unit(std::string name, Forward forward) {
  return {std::move(name), nullptr, std::move(forward)};
}

/// Returns a unit whose module `factory` makes (DeepSpeed's LayerSpec). The module is made only on the ranks that
/// compute the unit, with torch's generator seeded for it, so that every call makes the same values.
template <module_maker Factory>
module_unit unit(std::string name, Factory factory) {
  return unit(std::move(name), shared(std::string(), std::move(factory)));
}
/// Returns a unit whose module `factory` makes and that computes `forward(module, x)`, a function of the host.
template <module_maker Factory, class Forward>
module_unit unit(std::string name, Factory factory, Forward forward) {
  return unit(std::move(name), shared(std::string(), std::move(factory)), std::move(forward));
}

/// Returns a unit that calls the own forward of a module that several units share (DeepSpeed's TiedLayerSpec).
template <class Factory>
module_unit unit(std::string name, const shared_module<Factory>& module) {
  return unit(std::move(name), module, own_forward{});
}
/// Returns a unit that computes `forward(module, x)`, a function of the host, with a module that several units share.
template <class Factory, class Forward>
module_unit unit(std::string name, const shared_module<Factory>& module, Forward forward) {
  return {std::move(name), nullptr, {}, 0, recipe_of(module, std::move(forward)), std::is_same_v<Forward, own_forward>};
}

}  // namespace troupe::models
