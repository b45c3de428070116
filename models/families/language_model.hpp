// A model as the executor of a rank's compute instructions runs it: units (embedding, blocks, head) of segments, each
// with an autograd graph of its own. Owns the arithmetic of forward and backward. Callers decide the order of calls and
// where parameters and gradients are in memory: parameters are bound just before use, and may be elsewhere by backward.
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

/// A model whose segments are computed one at a time. Keeps no state between calls except constant tables (rotary
/// angles, masks).
class language_model {
 public:
  virtual ~language_model() = default;
  [[nodiscard]] virtual const core::model_table& table() const = 0;
  /// Makes the later uses of tied parameters read parameters of their own, which the caller must provide, as in
  /// pipelines whose stages each have a copy. They are numbered as by core::with_copies, but from `first` on, if
  /// another model's parameters precede them.
  virtual void read_copies(uint32_t first = 0) = 0;
  /// Returns the model's own parameter tensors, for parameter_binding; empty if the binding can make them itself.
  /// Copies of tied parameters have no entry; an entry is undefined if this rank does not compute with the parameter.
  [[nodiscard]] virtual std::vector<at::Tensor> own_parameters() const { return {}; }

  /// Runs segment `segment` of unit `unit`. `input` is the previous segment's output, none for the first. The same
  /// arguments give the same bits, so activation checkpointing may simply call it again. The batch's arrays must
  /// outlive the returned object.
  virtual std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch,
                                               const values& input, const parameter_binding& parameters) = 0;

  /// True if the segment's forward copies what backward needs of its last input tensor; the caller may then reuse that
  /// tensor's memory right after the forward.
  [[nodiscard]] virtual bool copies_last_input(uint32_t /*unit*/, uint32_t /*segment*/) const { return false; }

  /// True if, in training, the loss that the last segment's forward returns gets its value only in that segment's
  /// backward (or the input part of a split backward), because the head is computed in row tiles.
  [[nodiscard]] virtual bool loss_comes_with_backward() const { return false; }

  /// Returns the logits (one fp32 number per token of the vocabulary) for the token after the last position of row 0,
  /// from the last hidden state `hidden`. Used to generate text.
  virtual std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                               const parameter_binding& parameters) = 0;
};

/// Makes the model for micro-batches of at most `rows` x `columns` tokens, which computes in `type` on `device`, where
/// its parameters are. If a segment's output is a sum over the ranks of a tensor group, the model computes this rank's
/// summand of that output and of the input's gradient.
core::result<std::unique_ptr<language_model>> make_language_model(const model_spec& spec, core::dtype type,
                                                                  uint64_t rows, uint64_t columns,
                                                                  device::device_id device = {},
                                                                  const model_place& place = {});

/// Makes a student model with its teacher, as in the joint tables of models/table/teacher.hpp: in a training step, the
/// teacher's units are computed, too, without dropout and without keeping anything for backward. `first_of_teacher` is
/// the index of the teacher's first parameter; parameters that this rank does not compute with may precede it.
core::result<std::unique_ptr<language_model>> make_taught_model(const model_spec& spec, const teaching& by,
                                                                uint32_t first_of_teacher, core::dtype type,
                                                                uint64_t rows, uint64_t columns,
                                                                device::device_id device = {},
                                                                const model_place& place = {});

}  // namespace troupe::models
