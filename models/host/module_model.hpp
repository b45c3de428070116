// A host's own model: torch::nn modules in order, each with a forward from tensors to tensors, and a loss.
// Owns the host's description; prepared_modules and actors/ make table, plan, gradients and residency of it.
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

/// Modules that are gathered, run and released together: a layer, a block. The output is the next unit's input.
struct module_unit {
  std::string name;                           ///< unique in the model; parameters are called `name.parameter`
  std::shared_ptr<torch::nn::Module> module;  ///< null where the unit has no parameters, or is not built
  unit_forward forward;
  double forward_flops = 0;  ///< of one micro-batch; 0: the matrix products and convolutions of a dry run are counted
  std::shared_ptr<const module_recipe> recipe{};  ///< makes module and forward where the unit is computed
  bool calls_own = false;                         ///< forward is the module's own
  /// Its place in the list that the factory gave, by which its random numbers are seeded wherever a pass has put it;
  /// nullopt: the place that it has.
  std::optional<uint32_t> place{};
};

/// Parameters live on the CPU in any floating type; the run converts them and its floating buffers to the precision of
/// the configuration and shards them. A module, or a single tensor, that is in several units is shared between them.
/// Parameters without requires_grad are not trained. Buffers belong to each rank: running statistics are those of its
/// own micro-batches, as in data parallelism without synchronised norms.
struct module_model {
  std::vector<module_unit> units;
  loss_function loss;
  /// How units are cut over the tensor axis; null: none is, and a run with tensor ranks is refused.
  std::shared_ptr<const injection_policy> policy{};
};

/// By which the random numbers of unit `u` are seeded.
inline uint32_t place_of(const module_model& model, size_t u) {
  return model.units[u].place.value_or(static_cast<uint32_t>(u));
}

/// Has the layers of a model's units cut as `policy` says, in a run with tensor ranks (models/inject/injection.hpp).
/// For the factory's model, before a session has it; nothing changes in its modules where there is one tensor rank.
module_model inject(module_model model, injection_policy policy);

/// What would be cut over `degree` ranks, what not and why, layer by layer; builds units that have factories. Refused
/// (bad_input): a rule that matches no layer that it could cut, and what the walk refuses.
core::result<std::vector<injected_layer>> injected_layers(const module_model& model, uint32_t degree);

/// Builds all units that are not built yet, for a host that uses the model itself. Throws what their factories throw,
/// and where units share modules of different types under one key.
void build(module_model& model);

/// Makes the model; called once for each rank of the process, with torch's generator seeded alike. All calls give the
/// same structure; the first one's values are where training starts. Units with factories of their own are built after
/// it: once for the dry run, which drops each before the next, and once on each rank that computes them.
using module_factory = std::function<module_model()>;

/// Returns the micro-batch `micro` of optimizer step `step` (from 0) for `rank`. Called ahead of need, on another
/// thread than the modules', one call at a time, with torch's generator seeded from the run's seed and the three
/// arguments: the batch may be drawn at random and is the same in every run. Must return within a minute.
using host_batches = std::function<host_batch(uint64_t step, uint32_t micro, uint32_t rank)>;

/// A module with a forward of the host's own: `forward(module, x)`, such as one that takes the first of a GRU's
/// results.
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

/// A module whose own forward takes and returns one tensor, or named values.
template <held_module Module>
module_unit unit(std::string name, const Module& module) {
  return unit(std::move(name), module, own_forward{});
}

/// A function without parameters.
template <class Forward>
requires(!held_module<Forward> && !module_maker<Forward>) module_unit unit(std::string name, Forward forward) {
  return {std::move(name), nullptr, std::move(forward)};
}

/// A factory of a module (DeepSpeed's LayerSpec): the unit is built on the ranks that compute it, with torch's
/// generator seeded for it, so that every call makes the same values.
template <module_maker Factory>
module_unit unit(std::string name, Factory factory) {
  return unit(std::move(name), shared(std::string(), std::move(factory)));
}
template <module_maker Factory, class Forward>
module_unit unit(std::string name, Factory factory, Forward forward) {  ///< likewise
  return unit(std::move(name), shared(std::string(), std::move(factory)), std::move(forward));
}

/// A factory whose module several units share (TiedLayerSpec), each with a forward of its own if it wants.
template <class Factory>
module_unit unit(std::string name, const shared_module<Factory>& module) {
  return unit(std::move(name), module, own_forward{});
}
template <class Factory, class Forward>
module_unit unit(std::string name, const shared_module<Factory>& module, Forward forward) {  ///< likewise
  return {std::move(name), nullptr, {}, 0, recipe_of(module, std::move(forward)), std::is_same_v<Forward, own_forward>};
}

}  // namespace troupe::models
