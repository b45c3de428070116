// What segments keep for backward, as the options of a step say. Owns the choice between all of it and the lesser part;
// which units are computed again as a whole is plan_options'.
#pragma once

#include <cstdint>

#include "core/model_table.hpp"
#include "plan/options.hpp"

namespace troupe::plan {

/// Whether a segment's training forward keeps the lesser part of what its backward needs. Of a unit that is computed
/// again that is its last one, if it has such a part: its output would be read by nobody.
inline bool keeps_light(const core::model_table& table, const plan_options& o, uint32_t unit, uint32_t segment) {
  const auto& segments = table.units[unit].segments;
  if (o.mode != mode::train || segments[segment].light.flops == 0) return false;
  if (o.recomputes(unit)) return segment + 1 == segments.size();
  return segment_place{unit, segment} < o.light_before;
}

/// Bytes and work of one segment in one micro-batch of a training step.
struct segment_keeping {
  uint64_t bytes = 0;   ///< kept between forward and backward, or recompute and backward
  uint64_t beside = 0;  ///< that backward takes beside these
  double backward_flops = 0, recompute_flops = 0;
};

inline segment_keeping keeping_of(const core::model_table& table, const plan_options& o, uint32_t unit,
                                  uint32_t segment) {
  const core::segment_info& s = table.units[unit].segments[segment];
  if (unit < table.teacher_units) return {.beside = s.saved_bytes};  // while it computes; it has no backward
  // In tiles there is nothing more to keep: products are made again either way.
  if (!keeps_light(table, o, unit, segment))
    return {s.saved_bytes, s.tile_bytes, s.backward_flops() + (s.is_tiled() ? s.light.flops : 0), s.training_flops()};
  return {s.light.bytes, s.light.beside, s.backward_flops() + s.light.flops, 0};
}

}  // namespace troupe::plan
