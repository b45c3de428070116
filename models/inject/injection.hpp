// Cuts layers of a host's modules in place: a linear layer or an embedding of torch's stays the host's own object and
// computes with one tensor coordinate's part of its weight. Owns the walk over modules, the list of replaced layers
// with reasons, and the reversal; leaves the sum over coordinates to its caller.
//
// A coordinate computes the module unchanged, except that the outputs of its row layers are divided by the coordinate's
// share; its result times that share is its summand. The sum of all summands is the whole module's output if the output
// depends on the row layers' outputs by sums and factors alone. A residual path, a bias or a dropout after a row layer
// therefore needs no special care; a norm must not follow one inside the module.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/tp_plan.hpp"
#include "models/inject/policy.hpp"

namespace torch::nn {
class Module;
}

namespace troupe::models {

struct injected_layer {        ///< the decision for one layer of the tree, also for a layer that is not cut
  std::string name;            ///< name of the layer, such as "mlp 0.up"
  core::parameter_cut weight;  ///< cut of the layer's weight; replicated: the layer is left whole
  std::string why;             ///< rule that cuts the layer, or the reason why the layer is left whole
  static constexpr size_t no_rule = ~size_t{0};
  size_t rule = no_rule;  ///< rule of the policy that matched, if any
};

class injection {  ///< cuts the layers of one module, and of all modules below it, over tensor-parallel ranks
 public:
  /// Walks `tree`, whose names get the prefix `name`, and changes nothing yet; a null module has no layers. If no rule
  /// decides it, a policy's row names and its heuristic leave open how columns are packed, and which of several rows
  /// are cut: `way`, below `ways()`, selects one answer, the likeliest first. Errors (bad_input): columns without a row
  /// or the opposite, more ranks than heads or elements, parts that do not add up to the layer's outputs, a linear
  /// layer without a rule under `strict`.
  static core::result<injection> make(const std::shared_ptr<torch::nn::Module>& tree, const std::string& name,
                                      const injection_policy& policy, uint32_t degree, uint32_t way = 0);
  ~injection() { revert(); }
  injection(injection&&) noexcept = default;
  injection& operator=(injection&&) = delete;

  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }
  [[nodiscard]] bool cuts() const { return !places_.empty(); }
  [[nodiscard]] uint32_t ways() const { return ways_; }

  struct cut_parameter {
    at::Tensor tensor;  ///< the parameter's tensor, as the module registers it
    core::parameter_cut cut;
  };
  /// Returns the rows of the vocabulary on each coordinate, if the cut of one vocabulary layer is the only cut; else
  /// empty.
  [[nodiscard]] core::tp_widths vocabulary() const;
  /// Returns the parameters that are cut; a parameter of several layers is listed once for each of them.
  [[nodiscard]] std::vector<cut_parameter> parameters() const;

  /// Makes the layers compute with the parts of `coordinate` until the next call. Copies parts from the current bytes
  /// of the parameters: whole ones, or the coordinate's share with its padding, of core::local_shape. Gradients go to
  /// the parameters themselves. Must be called before each forward, because scaled parts of weights are copies.
  /// `in_columns`: a vocabulary's layer returns its own columns alone, and nothing has to be multiplied by a share.
  void sit(uint32_t coordinate, bool in_columns = false);
  /// Makes the layers compute with their own weights again.
  void revert();

 private:
  struct place {  // a layer that is cut, its own tensors, and the parts with which it computes
    std::shared_ptr<torch::nn::Module> module;
    at::Tensor *weight = nullptr, *bias = nullptr;  // tensors that the layer computes with
    at::Tensor own_weight, own_bias;                // tensors that the layer registered
    std::vector<int64_t> shape;                     // shape of the whole weight
    core::parameter_cut cut, bias_cut;
  };
  injection() = default;
  friend class injector;

  std::vector<injected_layer> layers_;
  std::vector<place> places_;
  uint32_t degree_ = 1, ways_ = 1;
};

/// Returns a text with one line for each layer: whether it is replaced or cut, and why.
std::string text_of(const std::vector<injected_layer>& layers);

}  // namespace troupe::models
