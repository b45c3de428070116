// The modules of a model as a plain table: what each module computes, which parameters it holds and how they are
// stored. models/ writes the table. Code that splits, compresses, adapts or replaces modules reads this table and not a
// model family. No Torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::core {

/// Computation of a layer, by its type. `other`: the module's type is unknown, so its computation is, too.
enum class layer_kind : uint8_t {
  linear,
  embedding,           ///< the layer looks up rows of its weight by token
  position_embedding,  ///< the layer looks up rows of its weight by position
  type_embedding,      ///< the layer looks up rows of its weight by the type of a token
  norm,
  attention,
  activation,
  convolution,
  other
};

/// Returns "linear", "position embedding" ...
constexpr std::string_view name_of(layer_kind kind) {
  switch (kind) {
    case layer_kind::linear:
      return "linear";
    case layer_kind::embedding:
      return "embedding";
    case layer_kind::position_embedding:
      return "position embedding";
    case layer_kind::type_embedding:
      return "type embedding";
    case layer_kind::norm:
      return "norm";
    case layer_kind::attention:
      return "attention";
    case layer_kind::activation:
      return "activation";
    case layer_kind::convolution:
      return "convolution";
    case layer_kind::other:
      return "other";
  }
  return "?";
}

/// Order of the dimensions of a weight in memory: GPT-2's Conv1D and embeddings (a row for each input) are (in, out);
/// other linear layers are (out, in).
enum class weight_layout : uint8_t { in_out, out_in };

/// Returns "in x out" or "out x in".
constexpr std::string_view name_of(weight_layout layout) {
  return layout == weight_layout::in_out ? "in x out" : "out x in";
}

/// Input of attention, or of a gated activation, that a part of a packed weight computes.
enum class part_role : uint8_t { query, key, value, gate, up };

/// Returns "query", "key" ...
constexpr std::string_view name_of(part_role role) {
  constexpr std::string_view names[] = {"query", "key", "value", "gate", "up"};
  return names[static_cast<size_t>(role)];
}

/// One of the weights (such as queries, keys and values) that are packed side by side in one weight: a range of
/// neighbouring outputs.
struct weight_part {
  part_role role = part_role::query;
  uint64_t width = 0;  ///< number of outputs of the part; the widths of all parts sum to the layer's `out`
};

/// A low-rank adapter (LoRA, Hu et al. 2021, arXiv:2106.09685) of a linear layer: for the input x, the layer's output
/// grows by `scale` * B (A dropout(x)).
struct layer_adapter {
  /// Parameter indices of A (rank, in) and B (out, rank), which the layer's `parameters` list, too.
  uint32_t a = 0, b = 0;
  double scale = 1;
  float dropout = 0;  ///< probability with which an element of x is dropped before A
  uint32_t site = 0;  ///< number of the adapter within its unit, on which the masks of its dropout depend
};

/// A module that computes: every module with parameters of its own, and also attention and activations, which may have
/// no parameters.
struct layer_info {
  /// Name of the module: its parameter `weight` is called name.weight, unless that parameter is shared.
  std::string name;
  layer_kind kind = layer_kind::other;
  std::vector<uint32_t> parameters;  ///< indices of all parameters of the layer, in the order in which it reads them
  /// Parameter indices of the weight and the bias, which `parameters` lists, too; nullopt if the layer has none.
  std::optional<uint32_t> weight, bias;
  /// Layout of a weight that maps one width to another; nullopt for norms and `other`.
  std::optional<weight_layout> layout;
  /// Numbers of elements of an input row and of an output row; for an embedding, its number of rows and its width. 0:
  /// unknown.
  uint64_t in = 0, out = 0;
  /// Heads that are stored side by side in attention's input and output, in the outputs of the linear layers before
  /// attention, in what a norm over all heads reads, and in the inputs of the linear layer after attention; 0: this
  /// layer has no heads.
  uint32_t heads = 0, kv_heads = 0;
  std::vector<weight_part> parts;  ///< parts of a packed weight in output order; empty: the weight is not packed
  uint32_t unit = 0, segment = 0;  ///< indices of the unit, and of the segment in it, that compute the layer
  std::optional<layer_adapter> adapter = std::nullopt;  ///< adapter of a linear layer; nullopt: the layer has none
  /// Flops of the product with the layer's weight in forward, for one micro-batch; 0 for a layer without such a product
  /// and for a host program's layers.
  double product_flops = 0;
  /// True for a layer that is computed in row tiles: the gradient of its weight belongs to the input part of a split
  /// backward.
  bool is_tiled = false;
  /// Rows (tokens of a micro-batch) that the layer computes; 0: unknown, as for a host program's layers.
  uint64_t rows = 0;
};

}  // namespace troupe::core
