// Owns the choice of the activations that each segment keeps for backward: all of them, or a smaller set from which
// backward recomputes the missing ones. plan_options chooses the units that are recomputed as a whole.
#pragma once

#include <cstdint>

#include "core/model_table.hpp"
#include "plan/options.hpp"

namespace troupe::plan {

/// True if a segment's training forward keeps only its smaller set of activations (core::light_keeping). In a
/// recomputed unit, only the last segment may keep the smaller set, because no other segment reads its output.
inline bool keeps_light(const core::model_table& table, const plan_options& o, uint32_t unit, uint32_t segment) {
  const auto& segments = table.units[unit].segments;
  if (o.mode != mode::train || segments[segment].light.flops == 0) return false;
  if (o.recomputes(unit)) return segment + 1 == segments.size();
  return segment_place{unit, segment} < o.light_before;
}

/// Bytes and work of one segment in one micro-batch of a training step.
struct segment_keeping {
  uint64_t bytes = 0;   ///< bytes that a segment keeps between forward (or recompute) and backward
  uint64_t beside = 0;  ///< further bytes that a segment's backward needs while it runs
  double backward_flops = 0, recompute_flops = 0;
};

/// Returns the bytes and work of one segment under the options `o`.
inline segment_keeping keeping_of(const core::model_table& table, const plan_options& o, uint32_t unit,
                                  uint32_t segment) {
  const core::segment_info& s = table.units[unit].segments[segment];
  // A unit without backward needs its bytes only while it computes.
  if (unit < (o.mode == mode::train ? table.first_trained_unit() : table.teacher_units))
    return {.beside = s.saved_bytes};
  // A tiled segment recomputes its products in backward whether or not it keeps the smaller set.
  if (!keeps_light(table, o, unit, segment))
    return {s.saved_bytes, s.tile_bytes, s.backward_flops() + (s.is_tiled() ? s.light.flops : 0), s.training_flops()};
  return {s.light.bytes, s.light.beside, s.backward_flops() + s.light.flops, 0};
}

}  // namespace troupe::plan
