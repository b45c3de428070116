// Tensor parallelism for the modules of a host, the program that uses Troupe as a library: a torch::nn linear or
// embedding layer stays the host's object and computes with one tensor-parallel rank's part of its weight. Owns the
// walk over modules, the list of layers, each with the reason why it is split or not, and the reversal; leaves the sum
// over ranks to its caller.
//
// Each rank has a share, a fraction; the shares of all ranks add up to 1 (share_of() in policy.hpp). A rank computes
// the module unchanged, except that the outputs of its row layers are divided by its share; its result times its share
// is its summand. The sum of all ranks' summands is the whole module's output if the output depends on the row layers'
// outputs by sums and factors alone. A residual path, a bias or a dropout after a row layer therefore needs no special
// care; a norm must not follow one inside the module.
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

struct injected_layer {        ///< whether and how one layer is split over tensor-parallel ranks, and why
  std::string name;            ///< name of the layer, such as "mlp 0.up"
  core::parameter_cut weight;  ///< how the layer's weight is split; replicated: the layer is not split
  std::string why;             ///< rule by which the layer is split, or the reason why it is not split
  static constexpr size_t no_rule = ~size_t{0};
  size_t rule = no_rule;  ///< index of the policy's rule that matched; no_rule: none
};

class injection {  ///< splits the layers of one module and of all modules below it over tensor-parallel ranks
 public:
  /// Finds the layers below `tree` and how they will be split over `degree` ranks, and changes nothing yet; names get
  /// the prefix `name`, and a null module has no layers. Without a rule, several ways are possible in which columns may
  /// be packed and row layers be split; `way`, below `ways()`, selects one of them, the likeliest first. Errors
  /// (bad_input): column layers without a row layer or the opposite, more ranks than heads or elements, parts that do
  /// not add up to the layer's outputs, a linear layer without a rule under `strict`.
  static core::result<injection> make(const std::shared_ptr<torch::nn::Module>& tree, const std::string& name,
                                      const injection_policy& policy, uint32_t degree, uint32_t way = 0);
  ~injection() { revert(); }
  injection(injection&&) noexcept = default;
  injection& operator=(injection&&) = delete;

  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }
  [[nodiscard]] bool cuts() const { return !places_.empty(); }
  [[nodiscard]] uint32_t ways() const { return ways_; }

  struct cut_parameter {
    at::Tensor tensor;  ///< tensor of the parameter, as the module has registered it
    core::parameter_cut cut;
  };
  /// Returns the number of rows of the vocabulary on each rank, if a single vocabulary layer is all that is split; else
  /// empty.
  [[nodiscard]] core::tp_widths vocabulary() const;
  /// Returns the parameters that are split; a parameter of several layers is listed once for each of them.
  [[nodiscard]] std::vector<cut_parameter> parameters() const;

  /// Makes the layers compute with the weights of the rank with this coordinate, until the next call. Takes them from
  /// the current bytes of the parameters, which are whole, or that rank's padded share of core::local_shape. Gradients
  /// go to the parameters themselves. Must be called before each forward, because scaled parts of weights are copies.
  /// `in_columns`: a vocabulary layer returns its own columns alone, so its output need not be summed or multiplied by
  /// the rank's share (share_of() in policy.hpp).
  void sit(uint32_t coordinate, bool in_columns = false);
  /// Makes the layers compute with their own, whole weights again.
  void revert();

 private:
  // A split layer. sit() makes it compute with a rank's part of its tensors, revert() with the whole tensors.
  struct place {
    std::shared_ptr<torch::nn::Module> module;
    at::Tensor *weight = nullptr, *bias = nullptr;  // members of the layer with which it computes
    at::Tensor own_weight, own_bias;                // tensors that the layer registered as its parameters
    std::vector<int64_t> shape;                     // shape of the whole weight
    core::parameter_cut cut, bias_cut;
  };
  injection() = default;
  friend class injector;

  std::vector<injected_layer> layers_;
  std::vector<place> places_;
  uint32_t degree_ = 1, ways_ = 1;
};

/// Returns a text with one line for each layer: how it is split over ranks, or that it is whole, and why.
std::string text_of(const std::vector<injected_layer>& layers);

}  // namespace troupe::models
