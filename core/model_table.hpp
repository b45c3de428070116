// A model as a plain table: what plan/ needs to know of it, and all it needs to know.
// models/ writes it, plan/ and actors/ read it. No Torch here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/layer_table.hpp"
#include "core/tensor_view.hpp"

namespace troupe::core {

/// How a parameter starts its life.
enum class initial_value : uint8_t { zeros, ones, normal };

/// What a parameter is to the ranks of a tensor group, which compute a segment together.
enum class tensor_share : uint8_t {
  alike,   ///< each has all of it and forms the same gradient
  summed,  ///< each has all of it; its gradient is the sum of what they form
  cut      ///< each has a share of its elements
};

/// How a tensor between segments is made of what the ranks of a group have.
enum class exchange_op : uint8_t {
  none,     ///< each has the tensor
  sum,      ///< each has a summand
  gather,   ///< each has a part; all parts are wanted, one behind the other
  swap,     ///< each has a part for every rank, and wants its own from every rank (all-to-all)
  collect,  ///< as gather, of hidden states
  scatter,  ///< each has a summand of every rank's part, and wants the sum of its own
};

/// "none", "sum" ...
constexpr std::string_view name_of(exchange_op op) {
  constexpr std::string_view names[] = {"none", "sum", "gather", "swap", "collect", "scatter"};
  return names[static_cast<size_t>(op)];
}
/// Whether elements are added: then they are of the parameters' type.
constexpr bool adds(exchange_op op) { return op == exchange_op::sum || op == exchange_op::scatter; }

/// The ranks that exchange.
enum class exchange_group : uint8_t {
  tensor,    ///< compute a segment together
  sequence,  ///< have columns of the same samples
};

/// Of the last tensor that a segment hands on; the others stay on their rank.
struct segment_exchange {
  exchange_op op = exchange_op::none;
  uint64_t bytes = 0;  ///< of a rank's summand or of one part, one micro-batch
  exchange_group group = exchange_group::tensor;
  /// Of a sum: the rows of the product that ends the segment, and its share of the segment's flops. The product may be
  /// worked in pieces of rows, each exchanged beside the next one's product. 0: the tensor is there at once.
  uint64_t rows = 0;
  double flops = 0;
  bool operator==(const segment_exchange&) const = default;
  [[nodiscard]] bool is_of_tensor_group() const { return op != exchange_op::none && group == exchange_group::tensor; }
};

/// One tensor of weights. Its index in `model_table::parameters` is its identity everywhere.
struct parameter_info {
  std::string name;            ///< Hugging Face's name, e.g. transformer.h.0.attn.c_attn.weight
  std::vector<int64_t> shape;  ///< as stored in Hugging Face's file
  initial_value init = initial_value::normal;
  float init_std = 0.02F;  ///< of initial_value::normal
  bool decay = true;       ///< false for biases and norms where an optimizer excludes them
  bool trainable = true;   ///< false: frozen, without gradient, master weight and moments
  /// The parameter whose weights, states and summed gradient it repeats (tied_copies.hpp).
  std::optional<uint32_t> copy_of = std::nullopt;
  tensor_share share = tensor_share::alike;
  /// Of the model that this one learns from: frozen, read from that model's own folder and never saved.
  bool of_teacher = false;
  [[nodiscard]] bool is_copy() const { return copy_of.has_value(); }
  [[nodiscard]] uint64_t numel() const { return numel_of(shape); }
};

/// The lesser part of what a segment may keep, of which its backward makes the rest again, with the same bits.
struct light_keeping {
  uint64_t bytes = 0;   ///< kept from forward to backward, one micro-batch
  uint64_t beside = 0;  ///< the most that backward has at a time of what it makes again
  double flops = 0;     ///< of the products that it makes again; 0: there is no such part
};

/// A part of a unit with its own autograd segment; communication lies between segments. Where it is cut over the tensor
/// axis, widths, flops and bytes are those of one rank.
struct segment_info {
  std::string name;                  ///< "attention", "mlp", "embedding", "head"
  std::vector<uint32_t> parameters;  ///< indices whose gradients this segment's backward writes
  double forward_flops = 0;          ///< for one micro-batch
  uint64_t saved_bytes = 0;          ///< activations kept from forward to backward, one micro-batch
  /// Where backward is split: bytes kept from its input part to its weight part, one micro-batch, and the flops of the
  /// weight part, out of backward_flops() of a whole backward.
  uint64_t weight_bytes = 0;
  double weight_flops = 0;
  /// In row tiles: rows of one, and the bytes that backward takes beside what is kept. 0: all rows at once.
  uint64_t tile_rows = 0, tile_bytes = 0;
  /// In row tiles, what of its flops forward leaves to backward.
  double left_flops = 0;
  light_keeping light = {};
  /// Between the ranks of a group: behind its forward, and behind the input part of its backward.
  segment_exchange output = {}, input_gradient = {};

  [[nodiscard]] bool is_tiled() const { return tile_rows > 0; }
  /// Of what a forward in training computes, and of a whole backward, which has two products for each of forward's.
  [[nodiscard]] double training_flops() const { return forward_flops - left_flops; }
  [[nodiscard]] double backward_flops() const { return 2 * forward_flops + left_flops; }
  /// What is kept, and what its backward takes beside it.
  [[nodiscard]] uint64_t most_bytes() const { return saved_bytes + tile_bytes; }
};

/// Where tensors that lie behind each other begin.
inline constexpr uint64_t input_alignment = 64;

/// Parameters and segments that are gathered and released together.
struct unit_info {
  std::string name;                  ///< "embedding", "block 3", "head"
  std::vector<uint32_t> parameters;  ///< all that its segments read; a tied one stands in two units
  std::vector<segment_info> segments;
  uint64_t input_bytes = 0;  ///< of the hidden state that it takes, one micro-batch; 0 for the first unit
  /// Tensors in these; where there are several, each begins at a multiple of input_alignment.
  uint32_t input_tensors = 1;
};

struct model_table {  ///< a model as units, segments and parameters
  std::vector<parameter_info> parameters;
  std::vector<unit_info> units;  ///< in order of forward
  /// In order of forward. Those of a segment hold its parameters, in its order; a shared parameter stands in each layer
  /// that reads it, every other in one.
  std::vector<layer_info> layers;
  /// The first so many units are those of a teacher, without its head: steps that train run them forward, for what the
  /// last one puts out; all other steps leave them out.
  uint32_t teacher_units = 0;
  /// [unit of the teacher] The unit of the model in whose stage of a pipeline it is computed; ascending. Empty: the
  /// first.
  std::vector<uint32_t> beside;
  uint64_t teacher_bytes = 0;  ///< of the hidden state that a unit of the teacher puts out, one micro-batch

  /// The layers of a segment, in order.
  [[nodiscard]] std::span<const layer_info> layers_of(uint32_t unit, uint32_t segment) const {
    const auto here = [&](const layer_info& l) { return l.unit == unit && l.segment == segment; };
    size_t first = 0;
    while (first < layers.size() && !here(layers[first])) ++first;
    size_t last = first;
    while (last < layers.size() && here(layers[last])) ++last;
    return std::span(layers).subspan(first, last - first);
  }
  /// The segment of the last unit that computes logits: a norm of own columns may be in front of it.
  [[nodiscard]] uint32_t logits_segment() const {
    return units.back().segments.front().output.op == exchange_op::collect ? 1 : 0;
  }
  /// The parameter that `parameter` is a copy of, or itself.
  [[nodiscard]] uint32_t original(uint32_t parameter) const {
    return parameters[parameter].copy_of.value_or(parameter);
  }
  /// Of the model: copies repeat what is counted already, a teacher is another.
  [[nodiscard]] uint64_t numel() const {
    uint64_t n = 0;
    for (const auto& p : parameters) n += p.is_copy() || p.of_teacher ? 0 : p.numel();
    return n;
  }
};

}  // namespace troupe::core
