// Interface of a segment, which receives a micro-batch, returns an output and a backward, and writes gradients to a
// sink.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/token_order.hpp"
#include "kernels/compress/quantiser.hpp"
#include "models/segment/values.hpp"

namespace troupe::models {

/// Memory for the gradient of a parameter: numel contiguous elements of `type` (the parameter's dtype or a wider one).
struct gradient_target {
  void* data = nullptr;
  core::dtype type = core::dtype::f32;
  bool accumulate = false;  ///< true: the gradient is added to the memory's contents; false: it overwrites them
  /// Mask with one bit per element, the first in the lowest bit of the first byte: an element with bit 0 gets
  /// contribution 0. Empty: all elements count.
  std::span<const uint8_t> kept = {};
  bool is_watched = false;  ///< true: the sink reads the contribution before the mask is applied: gradient_sink::formed
};

/// Receives the gradients of parameters during backward, on the compute lane's thread, one contribution at a time.
class gradient_sink {
 public:
  virtual ~gradient_sink() = default;
  virtual gradient_target target(uint32_t parameter) = 0;
  /// Called with a contribution to a watched target, in the parameter's shape and dtype; may request other targets
  /// meanwhile.
  virtual void formed(uint32_t /*parameter*/, const at::Tensor& /*contribution*/) {}
};

/// Quantisation of a linear layer's input before the product.
struct input_rounding {
  kernels::quantiser grid;
  bool is_static = false;  ///< true: one range for all tokens; false: each token has its own range
  /// range of a static quantisation; nullopt: the input is not quantised yet
  std::optional<kernels::value_range<double>> range = {};
  kernels::value_range<double>* seen = nullptr;  ///< range of inputs seen in training, which a static rounding widens
};

struct host_batch;
class input_watch;

/// The attention map of a teacher that a block of the model is trained to reproduce.
struct map_lesson {
  at::Tensor map;     ///< map of the teacher (B, heads, T, T), in the type that sums are formed in
  double weight = 0;  ///< weight of the mean squared difference of the maps
  double scale = 1;   ///< factor with which the gradient of this map's loss enters backward
  /// address to which the loss of the map is added; null in a recompute, whose loss was counted before
  double* lost = nullptr;
};

struct batch_numbers;

/// One micro-batch as tensors and keys. Tokens are (B, T + 1): inputs are the first T, targets the last T.
struct micro_batch {
  std::span<const int64_t>
      tokens;  ///< tokens, rows x (columns + 1), row-major; outlive forward and backward, like all arrays of the batch
  uint64_t rows = 0, columns = 0;     ///< number of samples B, and of inputs of a sample T
  std::span<const uint64_t> samples;  ///< B global sample numbers: keys of the dropout masks
  uint64_t seed = 0, step = 0;        ///< keys of the dropout masks
  bool training = true;               ///< true: training; false: no dropout, no graph
  /// rows x columns: the first column of each input's document in its row; key j is visible to query i when
  /// document_start[i] <= j <= i, and i's position is i - document_start[i]. Empty: each row is one document.
  std::span<const uint32_t> document_start = {};  ///< outlives forward and backward
  /// The inputs ordered by token and, with documents, by column within their document: backward need not read tensors'
  /// values.
  const core::token_order* by_token = nullptr;
  const core::token_order* by_column = nullptr;
  /// Tokens, documents and orders on the device that computes (batch_numbers.hpp); null on the CPU, which reads the
  /// arrays of this struct.
  const batch_numbers* numbers = nullptr;
  /// [layer of the table]: rounding of the layer's input, row by row, before it is multiplied; null: no layer rounds.
  const std::vector<std::optional<input_rounding>>* input_grids = nullptr;
  /// Called with the inputs of linear layers (input_watch.hpp); null: not called.
  input_watch* watch = nullptr;
  /// Tensors of a host's own model, which has no tokens; `micro` and `rank` identify its micro-batch.
  const host_batch* host = nullptr;
  uint32_t micro = 0, rank = 0;
  at::Tensor* logits = nullptr;  ///< forward only: receives the scores that the loss depends on; null: not stored
  /// Name of the output of a host's last unit that is stored at `logits`; empty: its only output.
  std::string_view output = {};
  /// True, in training only: the segment keeps its smaller set of activations from forward to backward
  /// (`core::segment_info::light`), and backward recomputes the activations that this set lacks.
  bool keeps_light = false;
  bool wants_output = true;  ///< false, only with keeps_light: the output's shape and history alone are read
  /// If the segment's output is computed in pieces of rows: number of rows (of B x T) of the first piece, which forward
  /// computes; 0: forward computes all rows.
  uint64_t first_rows = 0;
  /// The teacher's last hidden state for the same tokens (B, T, C'), when a model with a teacher trains. Outlives
  /// forward and backward; null: none.
  const at::Tensor* taught = nullptr;
  /// The attention map that a block learns, and the memory for its own map; only for attention whose rows and columns
  /// are not split. Null: none.
  const map_lesson* learned_map = nullptr;
  at::Tensor* map = nullptr;
  bool computes_loss = true;  ///< false, in evaluation alone: the last segment returns 0 and reads no target
};

/// Holds the output of a segment after its forward and the state that its backward needs, and runs the backward.
class segment_run {
 public:
  virtual ~segment_run() = default;
  /// Returns the detached outputs: the hidden state (B, T, C), or the values that a host's unit passes on; for the head
  /// the scalar mean cross-entropy in fp32 (fp64 in reference mode), which a head in row tiles sets only in backward.
  /// Empty after an input part.
  [[nodiscard]] virtual const values& outputs() const = 0;
  /// Returns the first output, undefined if there is none.
  [[nodiscard]] at::Tensor output() const { return outputs().first(); }
  /// Computes further rows of the output, which forward has left out (micro_batch::first_rows). Requires bound
  /// parameters.
  virtual void multiply(int64_t /*first*/, int64_t /*count*/) {}
  /// Frees the bytes of the outputs, which have been copied: they are not read any more.
  virtual void release_outputs() {}
  /// Returns the gradients of the inputs from those of the outputs (for the head: a scalar, the loss scale); none for
  /// the embedding. Writes every parameter gradient of the segment through the sink. May be called once; throws
  /// c10::Error when a parameter that it needs is not bound.
  virtual values backward(const values& gradients, gradient_sink& sink) = 0;

  /// Computes the input part of backward; with backward_weight it has the bits of `backward`. The input part writes
  /// nothing and keeps what the weight part needs: `core::segment_info::weight_bytes` bytes, without the output. The
  /// caller may free the segment's input after it, but `gradients` only after the weight part.
  virtual values backward_input(const values& gradients) = 0;
  /// Computes the weight part of backward: every parameter gradient, in the order of `backward`. Reads no parameter.
  /// Called once, after backward_input.
  virtual void backward_weight(gradient_sink& sink) = 0;
};

}  // namespace troupe::models
