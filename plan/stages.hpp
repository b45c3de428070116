// Owns the stages of a layout's pipeline: which units and ranks belong to a stage, where its computation begins and
// ends, and the bytes that cross into it. Names and texts of positions are in stage_place.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/math.hpp"
#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Number of pipeline stages of the model, over all ranks.
inline uint32_t num_stages(const job_layout& l) { return l.stage_of_unit.empty() ? 1 : l.stage_of_unit.back() + 1; }
/// Returns the pipeline coordinate of the ranks that compute a stage.
inline uint32_t pipeline_of_stage(const job_layout& l, uint32_t stage) {
  return l.options.pipeline.first_unit.empty() ? 0 : l.options.pipeline.table.rank_of_stage[stage];
}
/// Returns the pipeline coordinate of the ranks that compute a unit.
inline uint32_t pipeline_of_unit(const job_layout& l, uint32_t unit) {
  return pipeline_of_stage(l, l.stage_of_unit[unit]);
}
/// Returns the first unit of the model itself. The units before it are the teacher's.
inline uint32_t first_of_model(const job_layout& l) { return l.table->teacher_units; }
/// True if a step of the layout's mode computes the unit.
inline bool runs(const job_layout& l, uint32_t unit) {
  return l.options.mode == mode::train || unit >= first_of_model(l);
}
/// True if a step of the layout's mode runs the backward of the unit: in training, if the unit or one before it reads a
/// trained parameter. The forward of other units keeps nothing.
inline bool has_backward(const job_layout& l, uint32_t unit) {
  return l.options.mode == mode::train && unit >= l.table->first_trained_unit();
}
/// True if the unit is the first one of its stage, or the first one of the model itself.
inline bool begins_stage(const job_layout& l, uint32_t unit) {
  return unit == 0 || unit == first_of_model(l) || l.stage_of_unit[unit - 1] != l.stage_of_unit[unit];
}
/// Returns the first unit of a stage that has segments, without the teacher's units.
inline uint32_t first_computing(const job_layout& l, uint32_t stage) {
  uint32_t u = l.options.pipeline.first_unit.empty() ? first_of_model(l) : l.options.pipeline.first_unit[stage];
  while (u + 1 < l.table->units.size() && l.table->units[u].segments.empty()) ++u;
  return u;
}
/// Returns the last unit of a stage that has segments.
inline uint32_t last_computing(const job_layout& l, uint32_t stage) {
  const auto& first = l.options.pipeline.first_unit;
  auto u = static_cast<uint32_t>(l.table->units.size());
  if (stage + 1 < first.size()) u = first[stage + 1];
  --u;
  while (u > 0 && l.table->units[u].segments.empty()) --u;
  return u;
}
/// True if some unit of a stage has a backward. The stage after it then returns the gradient of its input.
inline bool stage_has_backward(const job_layout& l, uint32_t stage) {
  return has_backward(l, last_computing(l, stage));
}
/// True if the gradient of the input of stage `later` is sent to the stage before it.
inline bool returns_gradient(const job_layout& l, uint32_t later) {
  return later > 0 && stage_has_backward(l, later - 1);
}
/// Returns the unit at which a stage's part of the backward ends: its first one that has segments and a backward. If no
/// unit of the stage has a backward, returns the stage's first unit that has segments.
inline uint32_t last_going_back(const job_layout& l, uint32_t stage) {
  const uint32_t first = first_computing(l, stage);
  return stage_has_backward(l, stage) ? std::max(first, l.table->first_trained_unit()) : first;
}
/// Returns the first unit that the forward of a stage computes: a unit of the teacher if the step runs one in this
/// stage.
inline uint32_t first_forward(const job_layout& l, uint32_t stage) {
  for (uint32_t u = 0; u < first_of_model(l) && runs(l, u); ++u)
    if (l.stage_of_unit[u] == stage && !l.table->units[u].segments.empty()) return u;
  return first_computing(l, stage);
}
/// True if the teacher's hidden state and the distillation loss so far are sent to the next stage together with the
/// activation.
inline bool carries_teacher(const job_layout& l) { return l.options.mode == mode::train && first_of_model(l) > 0; }
/// Bytes of the activation that enters stage `later` (forward), or of its gradient, with a header for each of its
/// tensors.
inline uint64_t transfer_bytes(const job_layout& l, uint32_t later, use way = use::backward) {
  const core::unit_info& unit = l.table->units[first_computing(l, later)];
  const uint64_t own =
      core::round_up(unit.input_bytes, core::input_alignment) + unit.input_tensors * transfer_header_bytes;
  if (way != use::forward || !carries_teacher(l)) return own;
  const uint64_t lost_bytes = core::input_alignment;  // bytes of the loss: one double, aligned
  return own + core::round_up(l.table->teacher_bytes, core::input_alignment) + lost_bytes + 2 * transfer_header_bytes;
}
/// True if `rank` computes the unit.
inline bool computes(const job_layout& l, uint32_t rank, uint32_t unit) {
  return pipeline_of_unit(l, unit) == l.options.mesh.pipeline_at(rank);
}

}  // namespace troupe::plan
