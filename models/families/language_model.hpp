// A model as the compute lane runs it: units of segments, each with an autograd segment of its own. Owns the arithmetic
// of forward and backward. Leaves to others the addresses of parameters (they are bound just before use and may have
// moved by backward) and of gradients, and the order of calls.
#pragma once

#include <memory>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "device/device_id.hpp"
#include "models/segment/parameter_binding.hpp"
#include "models/segment/segment.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/teacher.hpp"

namespace troupe::models {

/// A model whose segments are computed one at a time. Stateless between calls except for constant tables (rotary,
/// masks).
class language_model {
 public:
  virtual ~language_model() = default;
  [[nodiscard]] virtual const core::model_table& table() const = 0;
  /// Makes later uses of tied parameters read parameters of their own, numbered as by core::with_copies, but starting
  /// at `first`, if parameters of others precede them.
  virtual void read_copies(uint32_t first = 0) = 0;
  /// Returns the tensors that are the model's parameters, to be bound; empty if the binding can make them itself. Has
  /// no entries for copies; an entry is undefined if this rank does not compute with the parameter.
  [[nodiscard]] virtual std::vector<at::Tensor> own_parameters() const { return {}; }

  /// Runs segment `segment` of unit `unit`. `input` is the previous segment's output, none for the first. The same
  /// arguments give the same bits, so activation checkpointing may simply call it again. The batch's arrays must
  /// outlive the returned object.
  virtual std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch,
                                               const values& input, const parameter_binding& parameters) = 0;

  /// True if the segment's forward copies what backward needs of its last input tensor, whose memory may then be
  /// reused.
  [[nodiscard]] virtual bool copies_last_input(uint32_t /*unit*/, uint32_t /*segment*/) const { return false; }

  /// True if, in training, the loss that the last segment returns gets its value only in that segment's backward, or in
  /// the input part of it: a head in row tiles.
  [[nodiscard]] virtual bool loss_comes_with_backward() const { return false; }

  /// Returns logits (V, fp32) after the last position of row 0, from the last hidden state; for generation.
  virtual std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                               const parameter_binding& parameters) = 0;
};

/// Builds the model for micro-batches of at most `rows` x `columns` tokens in `type`; it runs on `device`, where its
/// parameters are. If a segment's output is exchanged by a sum, a rank of a tensor group computes its summand of the
/// output and of the gradient of the input.
core::result<std::unique_ptr<language_model>> make_language_model(const model_spec& spec, core::dtype type,
                                                                  uint64_t rows, uint64_t columns,
                                                                  device::device_id device = {},
                                                                  const model_place& place = {});

/// Builds a model with a teacher, as one of models/table/teacher.hpp's tables: a training step runs the teacher's
/// units, too, without dropout and without keeping anything. `first_of_teacher` is the number of the teacher's first
/// parameter: parameters that this rank does not compute with may precede it.
core::result<std::unique_ptr<language_model>> make_taught_model(const model_spec& spec, const teaching& by,
                                                                uint32_t first_of_teacher, core::dtype type,
                                                                uint64_t rows, uint64_t columns,
                                                                device::device_id device = {},
                                                                const model_place& place = {});

}  // namespace troupe::models
