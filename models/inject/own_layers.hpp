// Layers of ours in the place of a host's, where these are called without their type: as units by themselves and in a
// Sequential. Owns what is replaced, what stays and why, and the way back; the weights are the host's layers' own, as
// they are at each forward.
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

/// What `norm`, a LayerNorm of torch's over the last dimension, computes, with our kernels: sums in fp32 (fp64 for
/// fp64), added in one fixed order, so that a row's result does not depend on other rows. With torch's history.
at::Tensor own_layer_norm(const torch::nn::Module& norm, const at::Tensor& x);

class own_layers {  ///< of one module and all below it
 public:
  struct layer {
    std::string path;  ///< within the module; empty: the module itself
    std::string why;   ///< it stays; empty: it is replaced
  };

  /// Walks `tree`, which may be null, and changes nothing yet. `is_called_alone`: the tree's own forward, and nothing
  /// of the host's, is what computes it.
  own_layers(const std::shared_ptr<torch::nn::Module>& tree, bool is_called_alone);
  ~own_layers() { revert(); }
  own_layers(own_layers&&) noexcept = default;
  own_layers& operator=(own_layers&&) = delete;

  /// Every layer with weights, in the order of the module.
  [[nodiscard]] const std::vector<layer>& layers() const { return layers_; }
  /// In place of the tree's own forward; empty: that stays.
  [[nodiscard]] const std::function<at::Tensor(const at::Tensor&)>& forward() const { return forward_; }

  /// Entries of Sequentials are ours until `revert`.
  void sit();
  void revert();

 private:
  struct place {
    torch::nn::AnyModule* entry;  // of a Sequential, which lives as long as tree_
    std::shared_ptr<torch::nn::AnyModule> own, original;
  };
  std::shared_ptr<torch::nn::Module> tree_;
  std::vector<layer> layers_;
  std::vector<place> places_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
  bool sits_ = false;
};

}  // namespace troupe::models
