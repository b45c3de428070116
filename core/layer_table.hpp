// The modules of a model as a plain table: what each computes, which parameters it holds and how they lie.
// models/ writes it; what cuts, compresses, adapts or replaces a module reads it here, not in a family. No Torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::core {

/// The computation of a layer. `other`: a module whose type says nothing.
enum class layer_kind : uint8_t {
  linear,
  embedding,           ///< rows looked up by token
  position_embedding,  ///< rows looked up by position
  norm,
  attention,
  activation,
  convolution,
  other
};

/// "linear", "position embedding" ...
constexpr std::string_view name_of(layer_kind kind) {
  switch (kind) {
    case layer_kind::linear:
      return "linear";
    case layer_kind::embedding:
      return "embedding";
    case layer_kind::position_embedding:
      return "position embedding";
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

/// How a weight lies in memory: GPT-2's Conv1D and embeddings, a row for each input, are (in, out); other linear layers
/// are (out, in).
enum class weight_layout : uint8_t { in_out, out_in };

/// "in x out" or "out x in".
constexpr std::string_view name_of(weight_layout layout) {
  return layout == weight_layout::in_out ? "in x out" : "out x in";
}

/// Which of attention's inputs a part of a packed weight gives.
enum class part_role : uint8_t { query, key, value };

/// "query", "key" or "value".
constexpr std::string_view name_of(part_role role) {
  return role == part_role::query ? "query" : role == part_role::key ? "key" : "value";
}

/// Neighbouring outputs of a weight that holds several side by side.
struct weight_part {
  part_role role = part_role::query;
  uint64_t width = 0;  ///< outputs; those of all parts are the layer's `out`
};

/// A module that computes: every one that has parameters of its own, and attention and activations, which may have
/// none.
struct layer_info {
  std::string name;  ///< the module's: its parameter `weight` is called name.weight, but for one that is shared
  layer_kind kind = layer_kind::other;
  std::vector<uint32_t> parameters;      ///< all that it holds, in the order in which it reads them
  std::optional<uint32_t> weight, bias;  ///< of these; none where it has no such parameter
  std::optional<weight_layout> layout;   ///< of a weight that takes one width to another; none of norms and `other`
  uint64_t in = 0, out = 0;  ///< elements of a row that it takes and gives, an embedding's rows and width; 0: unknown
  /// Heads that lie side by side in what attention takes and gives, and in the outputs of the linear layers before it
  /// or the inputs of the one behind it; 0: none there.
  uint32_t heads = 0, kv_heads = 0;
  std::vector<weight_part> parts;  ///< of a packed weight, in order of its outputs; empty: it is one
  uint32_t unit = 0, segment = 0;  ///< where it computes
};

}  // namespace troupe::core
