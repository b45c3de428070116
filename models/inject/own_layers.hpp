// Replaces a host's layers by Troupe's own if they are called without their type: as units by themselves and in a
// Sequential. Owns which layers are replaced, the reasons why others stay, and the reversal; the weights remain the
// host's layers' own, with their values at each forward.
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

/// Computes `norm`, a LayerNorm of torch's over the last dimension, with Troupe's kernels: sums in fp32 (fp64 for
/// fp64), added in one fixed order, so that a row's result does not depend on other rows. Records torch's autograd
/// history.
at::Tensor own_layer_norm(const torch::nn::Module& norm, const at::Tensor& x);

class own_layers {  ///< replaces layers of one module and all modules below it
 public:
  struct layer {
    std::string path;  ///< path of the layer within the module; empty: the module itself
    std::string why;   ///< reason why the layer is not replaced; empty: it is replaced
  };

  /// Walks `tree`, which may be null, and changes nothing yet. `is_called_alone`: true if the unit is computed by the
  /// tree's own forward, not by a forward of the host's.
  own_layers(const std::shared_ptr<torch::nn::Module>& tree, bool is_called_alone);
  ~own_layers() { revert(); }
  own_layers(own_layers&&) noexcept = default;
  own_layers& operator=(own_layers&&) = delete;

  /// Returns every layer with weights, in the order of the module.
  [[nodiscard]] const std::vector<layer>& layers() const { return layers_; }
  /// Returns the function that replaces the forward of the tree itself; empty: its own forward is kept.
  [[nodiscard]] const std::function<at::Tensor(const at::Tensor&)>& forward() const { return forward_; }

  /// Replaces the entries of Sequentials by Troupe's layers, until `revert` is called.
  void sit();
  void revert();

 private:
  struct place {
    torch::nn::AnyModule* entry;  // entry of a Sequential, which lives as long as tree_
    std::shared_ptr<torch::nn::AnyModule> own, original;
  };
  std::shared_ptr<torch::nn::Module> tree_;
  std::vector<layer> layers_;
  std::vector<place> places_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
  bool sits_ = false;
};

}  // namespace troupe::models
