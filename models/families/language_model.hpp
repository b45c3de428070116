// A model as the compute lane runs it: units of segments, each with an autograd segment of its own.
// Owns the arithmetic of forward and backward. Leaves to others the places of parameters (they are bound
// just before use and may have moved by backward) and of gradients, and the order of calls.
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

/// Runs segments of one model. Stateless between calls except for constant tables (rotary, masks).
class language_model {
 public:
  virtual ~language_model() = default;
  [[nodiscard]] virtual const core::model_table& table() const = 0;
  /// From now on later uses of tied parameters read parameters of their own, numbered as core::with_copies numbers
  /// them, but from `first` on where others that are not the model's stand before them.
  virtual void read_copies(uint32_t first = 0) = 0;
  /// The tensors that are its parameters, to be bound; empty if the binding can make them itself. None of
  /// copies; undefined for those that are not computed with here.
  [[nodiscard]] virtual std::vector<at::Tensor> own_parameters() const { return {}; }

  /// Runs segment `segment` of unit `unit`. `input` is the previous segment's output, none for the first.
  /// The same arguments give the same bits, so activation checkpointing may simply call it again.
  /// The batch's arrays outlive the returned object.
  virtual std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch,
                                               const values& input, const parameter_binding& parameters) = 0;

  /// Whether forward has copied what it needs of the last tensor that the segment takes.
  [[nodiscard]] virtual bool copies_last_input(uint32_t /*unit*/, uint32_t /*segment*/) const { return false; }

  /// Whether, in training, the loss that the last segment puts out gets its value in that segment's backward, or in the
  /// input part of it: a head in row tiles.
  [[nodiscard]] virtual bool loss_comes_with_backward() const { return false; }

  /// Logits (V, fp32) after the last position of row 0, from the last hidden state; for generation.
  virtual std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                               const parameter_binding& parameters) = 0;
};

/// Builds the model for micro-batches of at most `rows` x `columns` tokens in `type`, run where its parameters lie. A
/// rank of a tensor group computes its summand of what segments put out that are exchanged by a sum, and of the
/// gradients of their inputs.
core::result<std::unique_ptr<language_model>> make_language_model(const model_spec& spec, core::dtype type,
                                                                  uint64_t rows, uint64_t columns,
                                                                  device::device_id device = {},
                                                                  const model_place& place = {});

/// The same for a model with a teacher, as one of models/table/teacher.hpp's tables: a step that trains runs the
/// teacher's units, too, without dropout and without keeping anything. `first_of_teacher` is its first parameter's
/// number: others that are not computed with here may stand between the model's own and these.
core::result<std::unique_ptr<language_model>> make_taught_model(const model_spec& spec, const teaching& by,
                                                                uint32_t first_of_teacher, core::dtype type,
                                                                uint64_t rows, uint64_t columns,
                                                                device::device_id device = {},
                                                                const model_place& place = {});

}  // namespace troupe::models
