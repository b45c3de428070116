// The roles (queries, output, gate ...) of the modules in a transformer block, by their names. Rows describe the blocks
// of published models, under the names of DeepSpeed's policy classes and AutoTP families; a host program may add its
// own. Owns the rows and the tensor-parallel rules that follow from a row; block.hpp computes a block by its row,
// own_layers.hpp finds blocks. No Torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "models/inject/policy.hpp"

namespace troupe::models {

enum class layer_role : uint8_t {  ///< the part of a module in its model
  attention_norm,                  ///< norm of the attention half of a block
  query,
  key,
  value,
  packed_qkv,  ///< queries, keys and values in one linear layer
  output,      ///< last linear layer of attention
  mlp_norm,    ///< norm of the MLP half of a block
  gate,        ///< linear layer whose activated outputs multiply those of `up`
  up,
  packed_gate_up,  ///< gate, then up, in one linear layer
  down,            ///< last linear layer of the MLP
};

/// Returns the name of a role: "attention_norm", "query" ...
std::string_view name_of(layer_role role);

struct role_path {  ///< the role of a module
  layer_role role = layer_role::query;
  /// Path of the module below the block, such as "attn.c_attn". Of several paths with one role, the first that exists
  /// is used.
  std::string path = {};
  bool operator==(const role_path&) const = default;
};

/// Order in which norms are applied in a block. before: x + f(norm(x)). after: norm(x + f(x)). parallel: x +
/// attention(norm(x)) + mlp(norm(x)), where the MLP uses attention's norm unless it has its own.
enum class norm_order : uint8_t { before, after, parallel };

/// Kind of the norms of a block. rms: x / rms(x) * w. rms_plus_one: x / rms(x) * (1 + w), which no fused block
/// computes.
enum class norm_kind : uint8_t { layer, rms, rms_plus_one };

/// Order of the outputs of a packed_qkv layer. side_by_side: all queries, all keys, all values. by_head: query, key and
/// value of each head. other: an order that neither a fused block nor a tensor-parallel rule knows.
enum class qkv_packing : uint8_t { side_by_side, by_head, other };

/// Activation function of an MLP.
enum class mlp_activation : uint8_t { gelu_tanh, gelu_exact, silu, relu };

/// A row of the list of blocks: the roles of the modules of one kind of block, and how the block computes with them.
/// The host program sets heads, base and epsilon, which cannot be read from torch's modules.
struct layer_policy {
  std::string name = {};                   ///< DeepSpeed's policy class, such as "HFGPT2LayerPolicy", or a host's name
  std::vector<std::string> families = {};  ///< AutoTP's names of the families whose blocks have these modules
  std::vector<role_path> paths = {};       ///< empty: no blocks, only layers that are recognised by their types
  norm_order order = norm_order::before;
  norm_kind norm = norm_kind::layer;
  qkv_packing packing = qkv_packing::side_by_side;
  /// Activation of the MLP, for blocks whose activation is not a module of torch.
  mlp_activation act = mlp_activation::gelu_tanh;
  bool causal = true;
  bool rotates = false;    ///< true: queries and keys are rotated, element i with i + head width / 2
  bool adds_input = true;  ///< true: each half of the block adds its input to its output

  uint32_t heads = 0;     ///< query heads of a whole layer; 0: unknown, and attention is not fused
  uint32_t kv_heads = 0;  ///< key-value heads of a whole layer; 0: as many as heads
  double rotary_base = 10000.0;
  double epsilon = 1e-5;  ///< epsilon of RMS norms; a LayerNorm of torch has its own epsilon

  std::vector<std::string> leave = {};  ///< paths in the host's model that are not replaced
  std::string stays = {};               ///< reason why blocks of this row are never fused; empty: they can be fused
  std::string refused = {};             ///< reason why the row is refused; empty: it is accepted

  [[nodiscard]] bool has(layer_role role) const;
};

/// Returns all rows, in the order of DeepSpeed's list of policies.
const std::vector<layer_policy>& layer_policies();

/// Returns the row of that name, a policy class or a family of AutoTP. Errors (bad_input): a name without a row, with
/// the nearest name; a row that is refused, with the reason.
core::result<layer_policy> layer_policy_named(std::string_view name);

/// Returns the name of `names` that differs from `name` in the fewest characters; empty if there are none.
std::string nearest_name(std::string_view name, const std::vector<std::string>& names);

/// Returns the rules by which the layers of blocks of `policy` are split over tensor-parallel ranks: queries, keys,
/// values, gates and ups by columns, outputs and downs by rows. A block's attention and its MLP must be separate units.
/// Errors (bad_input): a refused row, or a row whose packing no rule describes.
core::result<std::vector<injection_rule>> tensor_rules(const layer_policy& policy);

/// Returns the row of DeepSpeed's preset_model `preset`. Errors (bad_input): a preset of a model with experts or with
/// latent attention, or an unknown one.
core::result<layer_policy> layer_policy_of_preset(std::string_view preset);

}  // namespace troupe::models
