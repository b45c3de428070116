// A model as a plain table with everything that the planner (plan/) has to know about a model. models/ writes the
// table; plan/ and actors/ read it. No Torch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/layer_table.hpp"
#include "core/tensor_view.hpp"

namespace troupe::core {

/// Initial value of a parameter.
enum class initial_value : uint8_t {
  zeros,
  ones,
  normal,  ///< drawn from a normal distribution with mean 0
  uniform  ///< drawn uniformly from an interval around 0
};

/// Which elements of a parameter each rank of a tensor group stores, and how the ranks' gradients are combined. The
/// ranks of a tensor group compute a segment together.
enum class tensor_share : uint8_t {
  alike,   ///< each rank has the whole parameter and computes the same gradient
  summed,  ///< each rank has the whole parameter; the gradient is the sum over the ranks
  cut      ///< each rank stores a part of the elements and computes the gradients of its part
};

/// How the ranks of a group combine their parts of a tensor that one segment passes to the next.
enum class exchange_op : uint8_t {
  none,  ///< each rank has the whole tensor, so nothing is exchanged
  sum,   ///< each rank has one summand of the tensor and receives the sum (all-reduce)
  /// Each rank has statistics of its part of the logits and receives the statistics of all ranks, concatenated
  /// (all-gather).
  gather,
  swap,  ///< each rank has a part for every rank and receives its own part from every rank (all-to-all)
  /// Each rank has a part of hidden states, keys or values, or sums over its own elements, and receives all parts
  /// (all-gather).
  collect,
  scatter,  ///< each rank has a summand of every rank's part and receives the sum of its own part (reduce-scatter)
};

/// Returns "none", "sum" ...
constexpr std::string_view name_of(exchange_op op) {
  constexpr std::string_view names[] = {"none", "sum", "gather", "swap", "collect", "scatter"};
  return names[static_cast<size_t>(op)];
}
/// True if the operation adds elements of several ranks; the exchanged tensor then has the dtype of the parameters.
constexpr bool adds(exchange_op op) { return op == exchange_op::sum || op == exchange_op::scatter; }

/// The group of ranks that an exchange connects.
enum class exchange_group : uint8_t {
  tensor,    ///< ranks of a tensor group, which compute a segment together
  sequence,  ///< ranks that hold different token positions of the same samples
};

/// Exchange of the last of the tensors that a segment outputs; the earlier tensors are not exchanged.
struct segment_exchange {
  exchange_op op = exchange_op::none;
  uint64_t bytes = 0;  ///< bytes of what one rank contributes (its summand or its part), for one micro-batch
  exchange_group group = exchange_group::tensor;
  /// For a sum: rows of the matrix product that ends the segment, and that product's share of the segment's flops. The
  /// product may be computed in pieces of rows; the exchange of each piece overlaps the product of the next. 0: the
  /// tensor is not divided into pieces.
  uint64_t rows = 0;
  double flops = 0;
  bool operator==(const segment_exchange&) const = default;
  [[nodiscard]] bool is_of_tensor_group() const { return op != exchange_op::none && group == exchange_group::tensor; }
};

/// One parameter tensor of the model. Code refers to it by its index in `model_table::parameters`.
struct parameter_info {
  std::string name;            ///< Hugging Face's name, e.g. transformer.h.0.attn.c_attn.weight
  std::vector<int64_t> shape;  ///< sizes of the dimensions as stored in Hugging Face's file
  initial_value init = initial_value::normal;
  /// Standard deviation of the parameter's initial values for initial_value::normal; their bound for
  /// initial_value::uniform.
  float init_std = 0.02F;
  bool decay = true;  ///< true: weight decay applies; false for biases and norms, which optimizers may exclude from it
  bool trainable = true;  ///< false: frozen, without gradient, master weight and moments
  /// Index of the parameter whose weights, states and summed gradient this copy repeats (tied_copies.hpp); nullopt if
  /// it is no copy.
  std::optional<uint32_t> copy_of = std::nullopt;
  tensor_share share = tensor_share::alike;
  /// True for a parameter of the teacher, the model that this one learns from: frozen, read from the teacher's own
  /// folder and never saved.
  bool of_teacher = false;
  /// Index of a row whose initial values are 0 although the parameter has initial_value::normal; nullopt: there is
  /// none.
  std::optional<uint64_t> zero_row = std::nullopt;
  /// True for a matrix of an adapter (layer_adapter), which folders of the base model do not contain.
  bool of_adapter = false;
  [[nodiscard]] bool is_copy() const { return copy_of.has_value(); }
  [[nodiscard]] uint64_t numel() const { return numel_of(shape); }
};

/// The smaller of the two sets of activations that a segment may keep for backward. Backward recomputes all other
/// activations from this set, with the same bits.
struct light_keeping {
  /// Bytes of the smaller set of activations of one micro-batch, which the segment keeps from forward to backward.
  uint64_t bytes = 0;
  uint64_t beside = 0;  ///< peak bytes of the recomputed tensors during backward, in addition to `bytes`
  double flops = 0;     ///< flops of the recomputed products; 0: the segment has no smaller set
};

/// A part of a unit with its own autograd segment; communication happens between segments. If the segment is split over
/// the tensor axis, its widths, flops and bytes count one rank's part.
struct segment_info {
  std::string name;                  ///< name of the segment, such as "attention", "mlp", "embedding" or "head"
  std::vector<uint32_t> parameters;  ///< indices of the parameters whose gradients this segment's backward computes
  double forward_flops = 0;          ///< flops of the segment's forward for one micro-batch
  /// Bytes of activations that the segment keeps from forward to backward, for one micro-batch.
  uint64_t saved_bytes = 0;
  /// If backward is split into an input part (gradient of the segment's input) and a weight part (gradients of its
  /// parameters): bytes kept from the input part to the weight part for one micro-batch, and the flops of the weight
  /// part if all weights are trained.
  uint64_t weight_bytes = 0;
  double weight_flops = 0;
  /// If the segment computes in row tiles: rows of one tile, and the bytes that backward uses in addition to the kept
  /// activations. 0: all rows are computed at once.
  uint64_t tile_rows = 0, tile_bytes = 0;
  /// If the segment computes in row tiles: the part of forward_flops that a training step computes in backward
  /// instead of in forward.
  double left_flops = 0;
  light_keeping light = {};
  /// Exchanges between the ranks of a group: `output` follows the segment's forward, `input_gradient` the input part of
  /// its backward.
  segment_exchange output = {}, input_gradient = {};
  /// Flops of the weights' gradients that backward does not compute because the weights are frozen
  /// (model_table::note_frozen), and the part of them that weight_flops includes.
  double frozen_flops = 0, frozen_weight_flops = 0;

  [[nodiscard]] bool is_tiled() const { return tile_rows > 0; }
  /// Return the flops of the segment's forward in training, and of its whole backward: two products for each product of
  /// forward, but one, the gradient of the input, for a frozen weight.
  [[nodiscard]] double training_flops() const { return forward_flops - left_flops; }
  [[nodiscard]] double backward_flops() const { return 2 * forward_flops + left_flops - frozen_flops; }
  /// Returns the flops of the weight part of a split backward, which backward_flops() includes.
  [[nodiscard]] double weight_part_flops() const { return weight_flops - frozen_weight_flops; }
};

/// Alignment in bytes of each tensor in a buffer that contains several tensors one after the other.
inline constexpr uint64_t input_alignment = 64;

/// A part of the model whose parameters are gathered and released together, such as one transformer block.
struct unit_info {
  std::string name;  ///< name of the unit, such as "embedding", "block 3" or "head"
  /// Indices of all parameters that the unit's segments read; every unit that reads a tied parameter lists it.
  std::vector<uint32_t> parameters;
  std::vector<segment_info> segments;
  /// Bytes of the hidden state that is the unit's input, for one micro-batch; 0 for the first unit.
  uint64_t input_bytes = 0;
  /// Tensors that input_bytes contains; if there are several, each starts at a multiple of input_alignment.
  uint32_t input_tensors = 1;
};

/// Description of a model without its values: parameters, units, segments and layers. Plans are made from this table.
struct model_table {
  std::vector<parameter_info> parameters;
  std::vector<unit_info> units;  ///< units in the order of forward: first a teacher's units, then the model's
  /// Layers in forward order. The layers of a segment hold its parameters, in the segment's order. A shared parameter
  /// is listed in each layer that reads it, every other parameter in one layer.
  std::vector<layer_info> layers;
  /// Number of leading units that belong to a teacher, the model whose outputs this model learns from; the teacher's
  /// head is in a unit of this model. Training steps run only the forward of the leading units, for the output of the
  /// last one; all other steps omit them.
  uint32_t teacher_units = 0;
  /// [unit of the teacher]: the unit of the model whose pipeline stage also computes the teacher's unit; ascending.
  /// Empty: all are computed in the stage of the model's first unit.
  std::vector<uint32_t> beside;
  uint64_t teacher_bytes = 0;  ///< bytes of the hidden state that a unit of the teacher outputs, for one micro-batch

  /// Returns the first unit of the model itself that reads a trained parameter; the number of units if none does. The
  /// backward of a training step ends at this unit: no gradient of the units before it is needed.
  [[nodiscard]] uint32_t first_trained_unit() const {
    const auto trains = [&](uint32_t q) { return parameters[q].trainable; };
    uint32_t u = teacher_units;
    while (u < units.size() && std::ranges::none_of(units[u].parameters, trains)) ++u;
    return u;
  }
  /// Counts in every segment the products of backward that are not computed because their weights are frozen. A frozen
  /// weight has a gradient nevertheless if another parameter of its layer follows from it, such as scores of a mask.
  /// Call after parameters were frozen or added.
  void note_frozen() {
    for (unit_info& u : units)
      for (segment_info& s : u.segments) s.frozen_flops = s.frozen_weight_flops = 0;
    for (const layer_info& l : layers) {
      const auto needs_weight = [&](uint32_t q) {
        const bool is_apart = q == l.bias || (l.adapter && (q == l.adapter->a || q == l.adapter->b));
        return parameters[q].trainable && !is_apart;
      };
      if (!l.weight || std::ranges::any_of(l.parameters, needs_weight)) continue;
      segment_info& s = units[l.unit].segments[l.segment];
      s.frozen_flops += l.product_flops;
      if (!l.is_tiled) s.frozen_weight_flops += l.product_flops;
    }
  }
  /// Returns the flops of a training step's forward and backward for one micro-batch, without those that backward
  /// repeats to save memory: units before the first trained one have no backward.
  [[nodiscard]] double step_flops() const {
    const uint32_t first = first_trained_unit();
    double out = 0;
    for (uint32_t u = 0; u < units.size(); ++u)
      for (const segment_info& s : units[u].segments)
        out += s.forward_flops + (u < first ? 0 : 2 * s.forward_flops - s.frozen_flops);
    return out;
  }
  /// Returns the layers of a segment, in order.
  [[nodiscard]] std::span<const layer_info> layers_of(uint32_t unit, uint32_t segment) const {
    const auto here = [&](const layer_info& l) { return l.unit == unit && l.segment == segment; };
    size_t first = 0;
    while (first < layers.size() && !here(layers[first])) ++first;
    size_t last = first;
    while (last < layers.size() && here(layers[last])) ++last;
    return std::span(layers).subspan(first, last - first);
  }
  /// Returns the index, within the last unit, of the segment that computes logits: 1 if segment 0 is a norm that each
  /// rank computes for its own token positions only, else 0.
  [[nodiscard]] uint32_t logits_segment() const {
    return units.back().segments.front().output.op == exchange_op::collect ? 1 : 0;
  }
  /// Returns the parameter that `parameter` is a copy of; `parameter` itself if it is no copy.
  [[nodiscard]] uint32_t original(uint32_t parameter) const {
    return parameters[parameter].copy_of.value_or(parameter);
  }
  /// Makes `layer`, one of `layers`, read `parameter`, too. The parameter follows the layer's others in its segment and
  /// its unit, so that parameters stay in the order of their layers.
  void add_to(layer_info& layer, uint32_t parameter) {
    const auto insert = [&](std::vector<uint32_t>& all) {
      auto at = all.end();
      while (at != all.begin() && std::ranges::find(layer.parameters, *(at - 1)) == layer.parameters.end()) --at;
      all.insert(at, parameter);
    };
    insert(units[layer.unit].parameters);
    insert(units[layer.unit].segments[layer.segment].parameters);
    layer.parameters.push_back(parameter);
  }
  /// Returns the number of elements of the model's parameters. Copies, which repeat elements already counted, and
  /// parameters of a teacher are not counted.
  [[nodiscard]] uint64_t numel() const {
    uint64_t n = 0;
    for (const auto& p : parameters) n += p.is_copy() || p.of_teacher ? 0 : p.numel();
    return n;
  }
};

}  // namespace troupe::core
