// Interface of a segment (the part of a model that is one autograd graph): its forward receives a micro-batch and
// returns outputs, and its backward writes parameter gradients to a sink.
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

/// Memory to which the gradient of a parameter is written: numel contiguous elements of `type`, which is the
/// parameter's dtype or a wider one.
struct gradient_target {
  void* data = nullptr;
  core::dtype type = core::dtype::f32;
  bool accumulate = false;  ///< true: the gradient is added to the memory's contents; false: it overwrites them
  /// Pruning mask, one bit per element, the first in the lowest bit of the first byte: the gradient of an element with
  /// bit 0 is set to 0. Empty: no element is masked.
  std::span<const uint8_t> kept = {};
  bool is_watched = false;  ///< true: gradient_sink::formed must be called with the gradient before the mask is applied
};

/// Interface that receives the gradients of parameters during backward, one contribution at a time, on the thread of
/// the rank's compute lane.
class gradient_sink {
 public:
  virtual ~gradient_sink() = default;
  virtual gradient_target target(uint32_t parameter) = 0;
  /// Called by the backward of a segment, if target() returned a `gradient_target` that `is_watched`, with each
  /// contribution to that parameter's gradient, in the parameter's shape and dtype, before the contribution is masked
  /// and written to the target's memory. The function may call target() for other parameters.
  virtual void formed(uint32_t /*parameter*/, const at::Tensor& /*contribution*/) {}
};

/// How the input of a linear layer is quantised before the product.
struct input_rounding {
  kernels::quantiser grid;
  bool is_static = false;  ///< true: one range for all tokens, tracked in training; false: each token's own range
  /// Range of a static quantisation; nullopt: no range is known, and the input is not quantised yet.
  std::optional<kernels::value_range<double>> range = {};
  /// Receives the range of the inputs in training, from which `range` is updated; null: not recorded.
  kernels::value_range<double>* seen = nullptr;
};

struct host_batch;
class input_watch;

/// A teacher's attention map that a block of the student is trained to reproduce.
struct map_target {
  at::Tensor map;     ///< attention weights of the teacher (B, heads, T, T), in the type that sums are formed in
  double weight = 0;  ///< weight of the mean squared difference of the maps
  double scale = 1;   ///< factor on the gradient of this loss in backward
  /// Address to which the loss is added; null in a recomputation, whose loss was counted in the forward.
  double* lost = nullptr;
};

struct batch_numbers;

/// One micro-batch and the other arguments of a segment's forward. Tokens are (B, T + 1): inputs are the first T of
/// each sample, targets the last T.
struct micro_batch {
  std::span<const int64_t>
      tokens;  ///< tokens, rows x (columns + 1), row-major; outlive forward and backward, like all arrays of the batch
  uint64_t rows = 0, columns = 0;     ///< number of samples B, and of inputs of a sample T
  std::span<const uint64_t> samples;  ///< B global sample numbers, from which dropout masks are drawn
  uint64_t seed = 0, step = 0;        ///< seed of the run and step number, from which dropout masks are drawn
  bool training = true;               ///< true: training; false: no dropout, no graph
  /// rows x columns: the first column of each input's document in its row; key j is visible to query i when
  /// document_start[i] <= j <= i, and i's position is i - document_start[i]. Empty: each row is one document.
  std::span<const uint32_t> document_start = {};  ///< must outlive forward and backward
  /// The inputs ordered by token (`by_token`) and, with documents, by position in their document (`by_column`), so that
  /// backward can sum gradients of embeddings without reading tensors' values.
  const core::token_order* by_token = nullptr;
  const core::token_order* by_column = nullptr;
  /// Tokens, documents and orders as tensors on the device that computes (batch_numbers.hpp); null on the CPU, which
  /// reads the arrays of this struct.
  const batch_numbers* numbers = nullptr;
  /// [layer of the table]: how the layer's input is quantised before it is multiplied; null: no layer's is.
  const std::vector<std::optional<input_rounding>>* input_grids = nullptr;
  /// Observer of the inputs of linear layers (input_watch.hpp); null: none.
  input_watch* watch = nullptr;
  /// Tensors of a micro-batch of a host's own model, which has no tokens; `micro` and `rank` identify the micro-batch.
  /// Null for Troupe's models.
  const host_batch* host = nullptr;
  uint32_t micro = 0, rank = 0;
  at::Tensor* logits = nullptr;  ///< forward only: receives the scores that the loss depends on; null: not stored
  /// Outside of training only: receives the logarithm of the probability of each input's target, (B, T') for the
  /// columns of the rank, in the type of sums; null: not stored. Not for batches with `targets`.
  at::Tensor* log_probabilities = nullptr;
  /// Name of the output of the last unit that is stored at `logits`, for a host's model; empty: its only output.
  std::string_view output = {};
  /// True, in training only: the segment keeps its smaller set of activations (`core::segment_info::light`) from
  /// forward to backward, and backward recomputes the activations that this set lacks.
  bool keeps_light = false;
  /// False, only with keeps_light: the caller reads the output's shape and history but not its values.
  bool wants_output = true;
  /// If the segment's output is computed in pieces of rows: number of rows (of B x T) of the first piece, which forward
  /// computes; 0: forward computes all rows.
  uint64_t first_rows = 0;
  /// In distillation: the teacher's last hidden state for the same tokens (B, T, C'). Must outlive forward and
  /// backward; null: none.
  const at::Tensor* taught = nullptr;
  /// `learned_map`: the teacher's attention map that a block learns; `map`: memory for the block's own map. Only for
  /// attention whose rows and columns are not split over ranks. Null: none.
  const map_target* learned_map = nullptr;
  at::Tensor* map = nullptr;
  bool computes_loss = true;  ///< false, in evaluation alone: the last segment returns 0 and reads no target
  /// rows x columns: the token that each input's logits have to find, core::no_target for an input without one; must
  /// outlive forward and backward. Empty: each input's target is the next token.
  std::span<const int64_t> targets = {};
  /// rows x columns: factor of the loss of each input, on the CPU; must outlive forward and backward. Empty: 1.
  std::span<const float> weights = {};
  /// Factor by which the mean loss over all inputs is multiplied, so that the mean over the micro-batches of a step is
  /// the mean over the step's targets.
  double loss_factor = 1;
};

/// A segment after its forward: holds its outputs and the state that its backward needs, and runs the backward.
class segment_run {
 public:
  virtual ~segment_run() = default;
  /// Returns the outputs, detached from the graph: the hidden state (B, T, C), or the values that a host's unit passes
  /// on; for the head the mean cross-entropy, a scalar in fp32 (fp64 for fp64 models), which a head in row tiles sets
  /// only in backward. Empty after the input part of a split backward.
  [[nodiscard]] virtual const values& outputs() const = 0;
  /// Returns the first output, undefined if there is none.
  [[nodiscard]] at::Tensor output() const { return outputs().first(); }
  /// Computes rows [first, first + count) of the output, which forward has left out (micro_batch::first_rows). The
  /// parameters must be bound.
  virtual void multiply(int64_t /*first*/, int64_t /*count*/) {}
  /// Frees the memory of the outputs; called when the caller has copied or sent them and reads them no more.
  virtual void release_outputs() {}
  /// Runs the whole backward: returns the gradients of the inputs (none for the embedding) from `gradients`, those of
  /// the outputs (for the head a scalar, the loss scale), and writes every parameter gradient of the segment through
  /// the sink. May be called once; throws c10::Error if a parameter that it needs is not bound.
  virtual values backward(const values& gradients, gradient_sink& sink) = 0;

  /// Runs the input part of a split backward, which together with backward_weight has the bits of `backward`: returns
  /// the gradients of the inputs, writes no parameter gradient, and keeps the tensors that the weight part needs,
  /// `core::segment_info::weight_bytes` bytes. The caller may then free the segment's input and output, but `gradients`
  /// only after the weight part.
  virtual values backward_input(const values& gradients) = 0;
  /// Runs the weight part of a split backward: computes every parameter gradient, in the order of `backward`. Reads no
  /// parameter. Must be called once, after backward_input.
  virtual void backward_weight(gradient_sink& sink) = 0;
};

}  // namespace troupe::models
