// Replaces layers and blocks of a host's modules by Troupe's own where the caller does not depend on their type: a
// module that is a unit by itself, an entry of a torch Sequential, an AnyModule of the host's, an entry of a ModuleList
// that declares its forward virtual. Owns which are replaced, the reasons why others stay, and the reversal; the
// weights stay those of the host's layers, read at each forward. inject.hpp tries a replacement before it stays.
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

/// A module whose forward is virtual, so that another module may take its place in a ModuleList whose entries the host
/// calls as this class: `list[i]->as<models::replaceable>()->forward(x)`.
struct replaceable : torch::nn::Module {
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

/// Function of a module's inputs: one tensor, or the two of a loss.
using tensors_function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

class own_layers {  ///< replaces layers of one module, and of all modules below it, by Troupe's
 public:
  struct layer {
    std::string path;     ///< path of the layer within the module; empty: the module itself
    std::string why;      ///< reason why the layer is not replaced; empty: it is replaced
    std::string by = {};  ///< what computes the layer in its place, such as "block '0' (HFGPT2LayerPolicy)"
  };
  struct slot {                           ///< an AnyModule of the host's that holds a module
    std::string name;                     ///< name for messages, such as "loss"
    torch::nn::AnyModule* any = nullptr;  ///< has to live as long as the replacement
  };

  /// Finds the layers below `tree`, which may be null, and changes nothing yet. `is_called_alone`: true if the unit's
  /// forward is `tree`'s own forward and not a function of the host. Without a policy, layer norms alone are replaced;
  /// with one, blocks with its roles, embeddings, cross-entropy losses, MLPs and norms with products in a Sequential.
  own_layers(const std::shared_ptr<torch::nn::Module>& tree, bool is_called_alone, const layer_policy* policy = nullptr,
             const std::vector<slot>& slots = {});
  ~own_layers() { revert(); }
  own_layers(own_layers&&) noexcept = default;
  own_layers& operator=(own_layers&&) = delete;

  /// Returns every layer that has weights, in the order of the module, with the reason if it is not replaced, and after
  /// them the slots that hold other modules.
  [[nodiscard]] const std::vector<layer>& layers() const { return layers_; }
  /// Returns the function that computes `tree` instead of its own forward, if `tree` is itself replaced; else empty.
  [[nodiscard]] const std::function<at::Tensor(const at::Tensor&)>& forward() const { return forward_; }
  /// Returns how many modules have the roles of the policy's blocks, replaced or not.
  [[nodiscard]] size_t blocks() const { return blocks_; }
  /// Returns, for a policy that matched no block, which module comes nearest and what it lacks.
  [[nodiscard]] const std::string& nearest() const { return nearest_; }

  /// A place where a module is replaced, by its own function or by any other.
  struct place {
    std::string path;
    size_t inputs = 1;
    tensors_function own, original;             ///< Troupe's computation, and the host's
    std::function<void()> sit, revert;          ///< put Troupe's module there, and the host's
    std::function<void(tensors_function)> put;  ///< puts a module there that calls the function
    bool attends = false;                       ///< true: a block with attention, which one token does not show
  };
  [[nodiscard]] const std::vector<place>& places() const { return places_; }

  /// Puts Troupe's layers into their places, until `revert` is called.
  void sit();
  /// Puts the host's modules back, the same objects.
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
