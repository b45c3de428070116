// Which layers of a host's modules are split over tensor-parallel ranks, and how, as the host states it before any
// module exists. Owns the rules and the heuristic; leaves the walk over modules to injection.hpp, and widths to
// core/tp_plan.hpp. No Torch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/tp_plan.hpp"

namespace troupe::models {

struct layer_policy;

struct injection_rule {  ///< how the layers are split whose names match a pattern
  /// A regular expression (RE2) for `MODULE.weight`, matched from its start. MODULE is the unit's name and the layer's
  /// path in the unit's module, such as "mlp 0.up".
  std::string pattern;
  /// How a layer's weight is split over ranks. column: by a linear layer's outputs; row: by its inputs; vocabulary: by
  /// the rows of an embedding or of a linear layer, whose output is whole again after the unit; replicated: not at all.
  core::tp_style style = core::tp_style::replicated;
  /// For style column: numbers of outputs of the layers packed in the weight, in order; empty: one layer.
  std::vector<uint64_t> parts = {};
  uint32_t heads = 0;  ///< number of key-value heads, none of which is divided; 0: the weight is divided anywhere
  /// For style column, if `parts` is empty: proportions of the packed layers, such as {1, 1} for a gate and its values.
  std::vector<uint64_t> ratio = {};
  bool operator==(const injection_rule&) const = default;
};

struct injection_policy {  ///< rules by which the layers of a model are split over tensor-parallel ranks
  /// Rules in order: the first that matches a layer applies; each must match some layer.
  std::vector<injection_rule> rules = {};
  /// DeepSpeed's injection_policy_tuple: endings of names of row layers, in whole words between points. In a unit that
  /// has such linear layers, these are split by rows and its other linear layers by columns, unless a rule decides
  /// otherwise. Each ending must match a layer.
  std::vector<std::string> rows = {};
  /// True: in units where no rule matches a layer, guessed_styles() decides by the order of the layers how they are
  /// split.
  bool heuristic = false;
  bool strict = false;  ///< true: a linear layer that no rule or name matches is an error
  uint64_t grain = 1;   ///< number of neighbouring elements that stay on one rank, for layers without heads
  /// True: Troupe's own kernels compute the layers that they can (own_layers.hpp), also without tensor parallelism.
  bool own_layers = false;
  /// Row of the blocks (layer_policy.hpp) that Troupe also computes if `own_layers` is true; null: Troupe computes only
  /// layer norms.
  std::shared_ptr<const layer_policy> blocks = {};
};

/// Returns a regular expression that matches the text `text` and nothing else.
std::string exactly(std::string_view text);

/// Returns the index of the first rule that matches the layer named `module`; rules.size() if none does. Errors
/// (bad_input): an invalid pattern.
core::result<size_t> rule_of(const injection_policy& policy, const std::string& module);

/// True if the name of layer `module` ends with `name`, one of injection_policy::rows, in whole words: "attention.proj"
/// ends "block 0.attention.proj". Ignores a ".weight" at the end.
bool names_layer(std::string_view name, std::string_view module);

struct listed_layer {  ///< a layer of a unit, as guessed_styles() sees it
  std::string name;
  bool is_norm = false;  ///< true: a layer norm; false: a linear layer
};
/// Returns how each layer of a unit is split, guessed from the order and names of the layers, as DeepSpeed's tp_parser
/// does. A linear layer directly before a layer norm is a row layer (the first layer norm of the unit counts as
/// following the last layer), and so is a layer named out_proj, o_proj, down_proj or dense_4h_to_h, or with a name that
/// ends in attention.dense, self_attention.dense, self_attn.dense or w2. All other linear layers are column layers; if
/// there is no row layer, no layer is split.
std::vector<core::tp_style> guessed_styles(std::span<const listed_layer> unit);

/// Returns the ways in which a column layer with `outputs` outputs may pack several layers, given that the row layer
/// after it has `inputs` inputs: gates with as many values, or queries with keys and values. Each is a list of numbers
/// of outputs, the likeliest first; an empty list: nothing is packed.
std::vector<std::vector<uint64_t>> likely_parts(uint64_t outputs, uint64_t inputs);

/// Returns the fraction by which a tensor-parallel rank scales everything that no row layer computes, such as a
/// residual path, before the results of all ranks are added: a power of two, so that multiplying by it rounds nothing;
/// the fractions of all ranks add up to 1.
double share_of(uint32_t coordinate, uint32_t degree);

}  // namespace troupe::models
