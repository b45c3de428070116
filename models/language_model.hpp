// A model as the compute lane runs it: units of segments, each with an autograd segment of its own.
// Owns the arithmetic of forward and backward. Leaves to others where parameters lie (they are bound
// just before use and may lie elsewhere at backward), where gradients go, and when anything happens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "models/model_spec.hpp"

namespace troupe::models {

/// The parameters of one rank as tensors whose bytes come and go. Not thread-safe: the compute lane's own.
///
/// Each parameter keeps one tensor and one StorageImpl for life; `bind` swaps its data pointer, `release` takes it
/// away and leaves a storage that refuses. What backward saved is the tensor itself and sees the new bytes, so a
/// parameter may be released after forward and bound elsewhere before backward. Touching a released parameter throws
/// c10::Error.
class parameter_binding {
 public:
  /// `own`, where there are any, are a host's tensors in the order of the table: they become tensors of `type`, lose
  /// the bytes that they have, and require gradients exactly where the table says `trainable`.
  parameter_binding(const core::model_table& table, core::dtype type, std::vector<at::Tensor> own = {});
  ~parameter_binding();
  parameter_binding(const parameter_binding&) = delete;
  parameter_binding& operator=(const parameter_binding&) = delete;

  /// `data` holds numel elements of `type`, starts at a 64-byte boundary and outlives the binding.
  void bind(uint32_t parameter, void* data);
  void release(uint32_t parameter);
  [[nodiscard]] bool bound(uint32_t parameter) const;
  [[nodiscard]] const at::Tensor& tensor(uint32_t parameter) const;
  [[nodiscard]] bool trainable(uint32_t parameter) const;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<c10::Storage> bytes_, none_;  ///< what a tensor's storage is while bound, and while released
  std::vector<bool> bound_, trainable_;
};

/// Where the gradient of a parameter goes: contiguous memory of numel elements of `type`
/// (the parameter's dtype or a wider one).
struct gradient_target {
  void* data = nullptr;
  core::dtype type = core::dtype::f32;
  bool accumulate = false;  ///< add to what is there instead of overwriting it
};

/// Asked once per contribution, during backward, on the compute lane's thread.
class gradient_sink {
 public:
  virtual ~gradient_sink() = default;
  virtual gradient_target target(uint32_t parameter) = 0;
};

struct host_batch;

/// One micro-batch as tensors and keys. Tokens are (B, T + 1): inputs are the first T, targets the last T.
struct micro_batch {
  std::span<const int64_t> tokens;    ///< rows x (columns + 1), row-major; outlives forward and backward
  uint64_t rows = 0, columns = 0;     ///< B, T
  std::span<const uint64_t> samples;  ///< B global sample numbers: keys of the dropout masks
  uint64_t seed = 0, step = 0;        ///< keys of the dropout masks
  bool training = true;               ///< false: no dropout, no graph
  /// rows x columns: where the document of each input begins in its row; key j is visible to query i when
  /// document_start[i] <= j <= i, and i's position is i - document_start[i]. Empty: each row is one document.
  std::span<const uint32_t> document_start = {};  ///< outlives forward and backward
  /// For a host's own model, which has no tokens: its tensors, and what else names the micro-batch.
  const host_batch* host = nullptr;
  uint32_t micro = 0, rank = 0;
};

/// A segment after its forward: its output, and what its backward needs.
class segment_run {
 public:
  virtual ~segment_run() = default;
  /// (B, T, C) detached hidden state; for the head the scalar mean cross-entropy in fp32 (fp64 in reference mode).
  [[nodiscard]] virtual const at::Tensor& output() const = 0;
  /// Gradient of the input from the gradient of the output (for the head: a scalar, the loss scale).
  /// Writes every parameter gradient of the segment through the sink. Undefined tensor for the embedding.
  /// Once only; throws c10::Error when a parameter it needs is not bound.
  virtual at::Tensor backward(const at::Tensor& gradient, gradient_sink& sink) = 0;
};

/// Runs segments of one model. Stateless between calls except for constant tables (rotary, masks).
class language_model {
 public:
  virtual ~language_model() = default;
  [[nodiscard]] virtual const core::model_table& table() const = 0;
  /// The tensors that are its parameters, to be bound; empty where the binding's own are as good.
  [[nodiscard]] virtual std::vector<at::Tensor> own_parameters() const { return {}; }

  /// Runs segment `segment` of unit `unit`. `input` is the previous segment's output, undefined for the first.
  /// The same arguments give the same bits, so activation checkpointing may simply call it again.
  /// The batch's arrays outlive the returned object.
  virtual std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch,
                                               const at::Tensor& input, const parameter_binding& parameters) = 0;

  /// Logits (V, fp32) after the last position of row 0, from the last hidden state; for generation.
  virtual std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                               const parameter_binding& parameters) = 0;
};

/// Builds the model for micro-batches of at most `rows` x `columns` tokens in `type`.
core::result<std::unique_ptr<language_model>> make_language_model(const model_spec& spec, core::dtype type,
                                                                  uint64_t rows, uint64_t columns);

}  // namespace troupe::models
