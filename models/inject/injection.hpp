// Cuts layers of a host's modules in place: a linear layer or an embedding of torch's stays the host's own object and
// computes with one tensor coordinate's part of its weight. Owns the walk, what was replaced and why, and the way back;
// the sum over coordinates is its caller's.
//
// A coordinate computes the module as it stands with its rows' outputs divided by its share, and its result times that
// share is its summand: the sum of all is the whole module's output, wherever that depends on the rows' outputs by sums
// and factors alone. So a residual path, a bias or a dropout behind the rows need no care; a norm does not stand there.
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

struct injected_layer {        ///< of the walk, also one that is left whole
  std::string name;            ///< "mlp 0.up"
  core::parameter_cut weight;  ///< replicated: it is left whole
  std::string why;             ///< the rule, or what keeps it whole
  static constexpr size_t no_rule = ~size_t{0};
  size_t rule = no_rule;  ///< of the policy, where one matched
};

class injection {  ///< into one module and all below it
 public:
  /// Walks `tree`, which `name` is put before, and changes nothing yet; a null module has no layers. Where no rule says
  /// it, a policy's row names and its heuristic leave open how columns are packed, and which of several rows are cut:
  /// `way` below `ways()` is one answer, the likeliest first. Refused (bad_input): columns without a row or the
  /// opposite, more ranks than heads or elements, parts that are not the layer's outputs, a linear layer without a rule
  /// under `strict`.
  static core::result<injection> make(const std::shared_ptr<torch::nn::Module>& tree, const std::string& name,
                                      const injection_policy& policy, uint32_t degree, uint32_t way = 0);
  ~injection() { revert(); }
  injection(injection&&) noexcept = default;
  injection& operator=(injection&&) = delete;

  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }
  [[nodiscard]] bool cuts() const { return !places_.empty(); }
  [[nodiscard]] uint32_t ways() const { return ways_; }

  struct cut_parameter {
    at::Tensor tensor;  ///< as the module registers it
    core::parameter_cut cut;
  };
  /// Rows of the vocabulary on each coordinate, if that of one layer is the only cut; else none.
  [[nodiscard]] core::tp_widths vocabulary() const;
  /// Those that are cut, each once for each layer that has it.
  [[nodiscard]] std::vector<cut_parameter> parameters() const;

  /// Until the next call the layers compute with the parts of `coordinate`, out of the bytes that the parameters have
  /// now: whole ones, or the coordinate's share with its padding, of core::local_shape. Gradients go to the parameters
  /// themselves. Before each forward, since parts of weights that are scaled are copies.
  /// `in_columns`: a vocabulary's layer gives its own columns alone, and nothing has to be multiplied by a share.
  void sit(uint32_t coordinate, bool in_columns = false);
  /// The layers compute with their own weights again.
  void revert();

 private:
  struct place {  // a layer that is cut
    std::shared_ptr<torch::nn::Module> module;
    at::Tensor *weight = nullptr, *bias = nullptr;  // what it computes with
    at::Tensor own_weight, own_bias;                // what it registered
    std::vector<int64_t> shape;                     // of the whole weight
    core::parameter_cut cut, bias_cut;
  };
  injection() = default;
  friend class injector;

  std::vector<injected_layer> layers_;
  std::vector<place> places_;
  uint32_t degree_ = 1, ways_ = 1;
};

/// What was replaced and what was not, and why, a line each.
std::string text_of(const std::vector<injected_layer>& layers);

}  // namespace troupe::models
