// The layers of a host's modules that are cut over the tensor axis, and how they are cut, as the host states before any
// module exists. Owns the rules and the heuristic; leaves the walk over modules to injection.hpp, and widths to
// core/tp_plan.hpp. No Torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/tp_plan.hpp"

namespace troupe::models {

struct injection_rule {  ///< rule for the layers that its pattern matches
  /// An RE2 pattern of `MODULE.weight`, matched from its start; MODULE is the unit's name and the path in its module:
  /// "mlp 0.up".
  std::string pattern;
  /// column: a linear layer's outputs are cut; row: its inputs; vocabulary: the rows of an embedding or of a linear
  /// layer, whose output is whole again after the unit; replicated: the layer is left whole.
  core::tp_style style = core::tp_style::replicated;
  std::vector<uint64_t> parts = {};  ///< for a column: outputs of each packed layer, in order; empty: one part
  uint32_t heads = 0;  ///< number of key-value heads that the layer's widths follow; 0: cut element by element
  bool operator==(const injection_rule&) const = default;
};

struct injection_policy {                  ///< rules of a model
  std::vector<injection_rule> rules = {};  ///< the first rule that matches a layer applies; each has to match one
  /// DeepSpeed's injection_policy_tuple: in a unit with linear layers whose names end with one of these, in whole words
  /// between points, these layers are rows and its other linear layers are columns, unless a rule decides otherwise.
  /// Each name has to match a layer.
  std::vector<std::string> rows = {};
  bool heuristic = false;   ///< true: units without a layer that a rule matches are cut by the order of their layers
  bool strict = false;      ///< true: a linear layer that no rule or name matches is an error
  uint64_t grain = 1;       ///< number of neighbouring elements that no cut divides, for layers without heads
  bool own_layers = false;  ///< true: Troupe's layers compute what they can (own_layers.hpp), also with one tensor rank
};

/// Returns a regular expression that matches only the text `text`.
std::string exactly(std::string_view text);

/// Returns the number of the rule for a layer; rules.size() if there is none. Errors (bad_input): an invalid pattern.
core::result<size_t> rule_of(const injection_policy& policy, const std::string& module);

/// True if `name`, one of injection_policy::rows, ends the layer's name: "attention.proj" ends "block
/// 0.attention.proj". Ignores a ".weight" at the end.
bool names_layer(std::string_view name, std::string_view module);

struct listed_layer {  ///< a layer for the heuristic
  std::string name;
  bool is_norm = false;  ///< true: a layer norm; false: a linear layer
};
/// Returns styles by the order of a unit's layers and their names, as DeepSpeed's tp_parser: a linear layer directly
/// before a layer norm is a row (the first layer norm of the unit counts as following the last layer), and so is a
/// layer named out_proj, o_proj, down_proj or dense_4h_to_h, or with a name that ends in attention.dense,
/// self_attention.dense, self_attn.dense or w2; all others are columns. All layers are whole if there is no row.
std::vector<core::tp_style> guessed_styles(std::span<const listed_layer> unit);

/// Returns the possible packings of a column layer with so many outputs, whose row layer has `inputs` inputs: gates
/// with as many values, or queries with keys and values. The likeliest comes first; an empty one: nothing is packed.
std::vector<std::vector<uint64_t>> likely_parts(uint64_t outputs, uint64_t inputs);

/// Returns a tensor coordinate's share of all that no row layer computes, such as a residual path: a power of two, so
/// that nothing is rounded; the sum over coordinates is 1.
double share_of(uint32_t coordinate, uint32_t degree);

}  // namespace troupe::models
