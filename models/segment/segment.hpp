// Input and output of a segment: takes a micro-batch, gives an output and a backward, writes gradients to a sink.
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

/// Where the gradient of a parameter goes: contiguous memory of numel elements of `type`
/// (the parameter's dtype or a wider one).
struct gradient_target {
  void* data = nullptr;
  core::dtype type = core::dtype::f32;
  bool accumulate = false;  ///< add to what is there instead of overwriting it
  /// A bit an element, the first in the lowest of the first byte: where it is 0 the contribution is 0. Empty: all
  /// count.
  std::span<const uint8_t> kept = {};
  bool is_watched = false;  ///< the sink wants to see the contribution, before that: gradient_sink::formed
};

/// Asked once per contribution, during backward, on the compute lane's thread.
class gradient_sink {
 public:
  virtual ~gradient_sink() = default;
  virtual gradient_target target(uint32_t parameter) = 0;
  /// A contribution to a watched target, in the parameter's shape and dtype; it may ask for other targets meanwhile.
  virtual void formed(uint32_t /*parameter*/, const at::Tensor& /*contribution*/) {}
};

/// What a linear layer makes of its input before it multiplies.
struct input_rounding {
  kernels::quantiser grid;
  bool is_static = false;                                  ///< one range for all tokens; else each has its own
  std::optional<kernels::value_range<double>> range = {};  ///< static: that range; without one values stay as they are
  kernels::value_range<double>* seen = nullptr;            ///< static, in training: joined with what comes
};

struct host_batch;
class input_watch;

/// The attention map of a teacher that a block learns.
struct map_lesson {
  at::Tensor map;          ///< (B, heads, T, T) in the type that sums are formed in
  double weight = 0;       ///< of the mean squared difference
  double scale = 1;        ///< that the loss is multiplied with before it goes back
  double* lost = nullptr;  ///< the loss is added here; null: a recompute, whose loss is counted already
};

struct batch_numbers;

/// One micro-batch as tensors and keys. Tokens are (B, T + 1): inputs are the first T, targets the last T.
struct micro_batch {
  std::span<const int64_t>
      tokens;  ///< rows x (columns + 1), row-major; outlives forward and backward, as all it refers to
  uint64_t rows = 0, columns = 0;     ///< B, T
  std::span<const uint64_t> samples;  ///< B global sample numbers: keys of the dropout masks
  uint64_t seed = 0, step = 0;        ///< keys of the dropout masks
  bool training = true;               ///< false: no dropout, no graph
  /// rows x columns: where the document of each input begins in its row; key j is visible to query i when
  /// document_start[i] <= j <= i, and i's position is i - document_start[i]. Empty: each row is one document.
  std::span<const uint32_t> document_start = {};  ///< outlives forward and backward
  /// The inputs ordered by token and, with documents, by column within their document: backward reads no tensor's
  /// values.
  const core::token_order* by_token = nullptr;
  const core::token_order* by_column = nullptr;
  /// All of these on the device that computes (batch_numbers.hpp); null on the CPU, which reads them here.
  const batch_numbers* numbers = nullptr;
  /// [layer of the table]: what the layer makes of its input, row by row, before it multiplies; null: nothing of any.
  const std::vector<std::optional<input_rounding>>* input_grids = nullptr;
  /// Is told what linear layers multiply with (input_watch.hpp); null: nobody is.
  input_watch* watch = nullptr;
  /// For a host's own model, which has no tokens: its tensors, and the numbers that identify the micro-batch.
  const host_batch* host = nullptr;
  uint32_t micro = 0, rank = 0;
  at::Tensor* logits = nullptr;  ///< forward alone: where the last segment leaves what its loss is of; null: nowhere
  /// Of several values that a host's last unit puts out, the one that is left there; empty: the only one.
  std::string_view output = {};
  /// In training: of what backward needs, what products alone make again is not kept (`core::segment_info::light`).
  bool keeps_light = false;
  bool wants_output = true;  ///< false, where light is kept alone: the output's shape and history are all that is read
  /// Where the segment's output comes in pieces of rows: rows (of B x T) that forward computes of it. 0: all.
  uint64_t first_rows = 0;
  /// In training, of a model that has a teacher: what that made of the same tokens, its last hidden state (B, T, C').
  /// Outlives forward and backward; null: nothing.
  const at::Tensor* taught = nullptr;
  /// Of attention alone, by rows and columns that are not cut: the map that it learns, and where it leaves its own;
  /// null: none, nowhere.
  const map_lesson* learned_map = nullptr;
  at::Tensor* map = nullptr;
  bool computes_loss = true;  ///< false, in evaluation alone: the last segment gives 0 and reads no target
};

/// A segment after its forward: its output, and the state that its backward needs.
class segment_run {
 public:
  virtual ~segment_run() = default;
  /// Detached: the hidden state (B, T, C), or what a host's unit hands on; for the head the scalar mean cross-entropy
  /// in fp32 (fp64 in reference mode), which a head in row tiles fills in backward alone. None after an input part.
  [[nodiscard]] virtual const values& outputs() const = 0;
  /// The first of them, undefined where there is none.
  [[nodiscard]] at::Tensor output() const { return outputs().first(); }
  /// Computes further rows of the output, which forward has left (micro_batch::first_rows). Wants parameters bound.
  virtual void multiply(int64_t /*first*/, int64_t /*count*/) {}
  /// Gives back the bytes of the outputs, which have been copied: they are not read any more.
  virtual void release_outputs() {}
  /// Gradients of the inputs from those of the outputs (for the head: a scalar, the loss scale).
  /// Writes every parameter gradient of the segment through the sink. None for the embedding.
  /// Once only; throws c10::Error when a parameter it needs is not bound.
  virtual values backward(const values& gradients, gradient_sink& sink) = 0;

  /// The same in two parts, with the same bits. The input part writes nothing and keeps what the weight part needs:
  /// that is `core::segment_info::weight_bytes`, and the output is not among it. The bytes of the segment's input may
  /// be taken back after it, those of `gradients` only after the weight part.
  virtual values backward_input(const values& gradients) = 0;
  /// The weight part: every parameter gradient, in the order of `backward`. Reads no parameter. Once, after the other.
  virtual void backward_weight(gradient_sink& sink) = 0;
};

}  // namespace troupe::models
