// Replaces layers of a host's modules by Troupe's own where the caller does not depend on their type: a layer that is a
// unit by itself, or an entry of a torch Sequential. Owns which layers are replaced, the reasons why others stay, and
// the reversal; the weights stay those of the host's layers, read at each forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class AnyModule;
class Module;
}  // namespace torch::nn

namespace troupe::models {

/// Computes `norm`, a LayerNorm of torch's over the last dimension, with Troupe's kernels: sums in fp32 (fp64 for fp64)
/// in one fixed order, so that a row's result does not depend on other rows. Autograd can differentiate the result.
at::Tensor own_layer_norm(const torch::nn::Module& norm, const at::Tensor& x);

class own_layers {  ///< replaces layers of one module, and of all modules below it, by Troupe's
 public:
  struct layer {
    std::string path;  ///< path of the layer within the module; empty: the module itself
    std::string why;   ///< reason why the layer is not replaced; empty: it is replaced
  };

  /// Finds the layers below `tree`, which may be null, and changes nothing yet. `is_called_alone`: true if the unit's
  /// forward is `tree`'s own forward and not a function of the host.
  own_layers(const std::shared_ptr<torch::nn::Module>& tree, bool is_called_alone);
  ~own_layers() { revert(); }
  own_layers(own_layers&&) noexcept = default;
  own_layers& operator=(own_layers&&) = delete;

  /// Returns every layer that has weights, in the order of the module, with the reason if it is not replaced.
  [[nodiscard]] const std::vector<layer>& layers() const { return layers_; }
  /// Returns the function that computes `tree` instead of its own forward, if `tree` is itself a replaced layer; else
  /// empty.
  [[nodiscard]] const std::function<at::Tensor(const at::Tensor&)>& forward() const { return forward_; }

  /// Puts Troupe's layers into the Sequentials, until `revert` is called.
  void sit();
  void revert();

 private:
  struct place {
    torch::nn::AnyModule* entry;  // entry of a Sequential; valid as long as tree_
    std::shared_ptr<torch::nn::AnyModule> own, original;
  };
  std::shared_ptr<torch::nn::Module> tree_;
  std::vector<layer> layers_;
  std::vector<place> places_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
  bool sits_ = false;
};

}  // namespace troupe::models
