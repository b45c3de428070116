// Replaces layers and blocks of a host program's modules by Troupe's own, where callers do not depend on a module's
// type: a module that is a unit by itself, an entry of a torch Sequential, an AnyModule of the host, an entry of a
// ModuleList that declares its forward virtual. Owns the choice of the replaced layers, the reasons for the others, and
// the reversal. The weights stay those of the host's layers, read at each forward. inject.hpp compares a replacement
// with the original before it stays.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/inject/layer_policy.hpp"

namespace torch::nn {
class AnyModule;
}  // namespace torch::nn

namespace troupe::models {

/// A module with a virtual forward. Another module may replace it in a ModuleList if the host calls the entries as this
/// class: `list[i]->as<models::replaceable>()->forward(x)`.
struct replaceable : torch::nn::Module {
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

/// Function of a module's inputs: one tensor, or two for a loss.
using tensors_function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

class own_layers {  ///< replaces layers of one module, and of all modules below it, by Troupe's
 public:
  struct layer {
    std::string path;     ///< path of the layer within the module; empty: the module itself
    std::string why;      ///< reason why the layer is not replaced; empty: it is replaced
    std::string by = {};  ///< what computes the layer in its place, such as "block '0' (HFGPT2LayerPolicy)"
  };
  struct slot {                           ///< an AnyModule of the host program that holds a module
    std::string name;                     ///< name for messages, such as "loss"
    torch::nn::AnyModule* any = nullptr;  ///< must live as long as the replacement
  };

  /// Finds the layers below `tree`, which may be null, and changes nothing yet. `is_called_alone`: true if the unit's
  /// forward is `tree`'s own forward and not a function of the host. Without a policy, only layer norms are replaced;
  /// with a policy, also blocks with its roles, embeddings, cross-entropy losses, MLPs, and norms with products in a
  /// Sequential.
  own_layers(const std::shared_ptr<torch::nn::Module>& tree, bool is_called_alone, const layer_policy* policy = nullptr,
             const std::vector<slot>& slots = {});
  ~own_layers() { revert(); }
  own_layers(own_layers&&) noexcept = default;
  own_layers& operator=(own_layers&&) = delete;

  /// Returns all layers with weights, in the order of the module, each with the reason if it is not replaced; after
  /// them the slots that hold other modules.
  [[nodiscard]] const std::vector<layer>& layers() const { return layers_; }
  /// Returns the function that computes `tree` instead of its own forward, if `tree` is itself replaced; else empty.
  [[nodiscard]] const std::function<at::Tensor(const at::Tensor&)>& forward() const { return forward_; }
  /// Returns the number of modules that have the roles of the policy's blocks, replaced or not.
  [[nodiscard]] size_t blocks() const { return blocks_; }
  /// Returns, for a policy that matched no block, a sentence with the module that has most of its roles and the first
  /// role that it lacks.
  [[nodiscard]] const std::string& nearest() const { return nearest_; }

  /// A place in the host's modules where a function may compute instead of a module: Troupe's function or any other.
  struct place {
    std::string path = {};
    size_t inputs = 1;
    tensors_function own = {}, original = {};        ///< Troupe's computation, and the host's
    std::function<void(tensors_function)> put = {};  ///< puts a module there that calls the given function
    std::function<void()> revert = {};               ///< puts the host's module back
    /// Puts Troupe's module there; empty if `put` with `own` does so.
    std::function<void()> sit = {};
    bool attends = false;  ///< true: a block with attention, which a sample of one token does not test
  };
  [[nodiscard]] const std::vector<place>& places() const { return places_; }

  /// Puts Troupe's layers into their places, until `revert` is called.
  void sit();
  /// Puts the same objects of the host back into their places.
  void revert();

 private:
  friend class replacement_finder;
  std::shared_ptr<torch::nn::Module> tree_;
  std::vector<layer> layers_;
  std::vector<place> places_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
  size_t blocks_ = 0;
  std::string nearest_;
  bool sits_ = false;
};

/// Returns a text with one line for each layer: what computes it in its place, or that it is torch's, and why.
std::string text_of(const std::vector<own_layers::layer>& layers);

}  // namespace troupe::models
