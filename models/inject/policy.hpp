// Which layers of a host's modules are cut over the tensor axis, and how: what a host says before any module is there.
// Owns the rules and the heuristic; the walk over modules is injection.hpp's, widths are core/tp_plan.hpp's. No Torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/tp_plan.hpp"

namespace troupe::models {

struct injection_rule {  ///< for the layers that its pattern matches
  /// An RE2 pattern of `MODULE.weight`, from its start; MODULE is the unit's name and the path in its module: "mlp
  /// 0.up".
  std::string pattern;
  /// column: a linear layer's outputs are cut; row: its inputs; vocabulary: the rows of an embedding or of a linear
  /// layer, whose output is whole again behind the unit; replicated: it is left whole.
  core::tp_style style = core::tp_style::replicated;
  std::vector<uint64_t> parts = {};  ///< of a column: outputs of what is packed into it, in order; none: one part
  uint32_t heads = 0;                ///< key-value heads with which its widths go; 0: element by element
  bool operator==(const injection_rule&) const = default;
};

struct injection_policy {                  ///< of a model
  std::vector<injection_rule> rules = {};  ///< the first that matches a layer counts; each has to match one
  /// DeepSpeed's injection_policy_tuple: a unit with linear layers whose names end so, in whole words between points,
  /// has these as rows and its others as columns, where no rule says otherwise. Each has to end one.
  std::vector<std::string> rows = {};
  bool heuristic = false;   ///< units of which no rule matches a layer go by the order of their layers
  bool strict = false;      ///< a linear layer that nothing matches is an error
  uint64_t grain = 1;       ///< elements that stay together where there are no heads
  bool own_layers = false;  ///< ours compute what they can (own_layers.hpp), on one tensor rank, too
};

/// A pattern of this text and nothing else.
std::string exactly(std::string_view text);

/// The number of the rule for a layer; rules.size(): none. Refused (bad_input): what is no pattern.
core::result<size_t> rule_of(const injection_policy& policy, const std::string& module);

/// Whether `name`, one of injection_policy::rows, ends that of the layer: "attention.proj" that of "block
/// 0.attention.proj". A ".weight" behind it is as none.
bool names_layer(std::string_view name, std::string_view module);

struct listed_layer {  ///< for the heuristic
  std::string name;
  bool is_norm = false;  ///< a layer norm; else a linear layer
};
/// By the order of a unit's layers and their names, as DeepSpeed's tp_parser: rows stand before a layer norm, where the
/// one in front of all stands behind the last, or are called out_proj, o_proj, down_proj or dense_4h_to_h, or end in
/// attention.dense, self_attention.dense, self_attn.dense or w2; all others are columns. All whole where there is no
/// row.
std::vector<core::tp_style> guessed_styles(std::span<const listed_layer> unit);

/// What a column layer of so many outputs may be packed of, where its row layer takes `inputs`: gates beside as many
/// values, or queries beside keys and values. The likeliest first; an empty one: nothing is packed.
std::vector<std::vector<uint64_t>> likely_parts(uint64_t outputs, uint64_t inputs);

/// Of a tensor coordinate, in what no row layer computes, such as a residual path: powers of two, so that nothing is
/// rounded, whose sum is 1.
double share_of(uint32_t coordinate, uint32_t degree);

}  // namespace troupe::models
