#include "actors/hands/lessons.hpp"

#include <utility>

#include "models/layers/hidden_lesson.hpp"

namespace troupe::actors {

void lessons::ended(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden,
                    double scale) {
  if (unit == 0) lost_ = 0;
  for (const auto& x : by.hidden) {
    at::Tensor& lesson = hidden_[teacher_units + x.unit];
    if (x.of_teacher == unit && unit < teacher_units) lesson = hidden;
    if (teacher_units + x.unit != unit) continue;
    auto learned = models::learn_hidden(hidden, lesson, by.hidden_states, scale);
    lesson = std::move(learned.gradient);
    lost_ += learned.loss;
  }
  if (unit + 1 == teacher_units) last_ = hidden;
}

void lessons::keep_map(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& map) {
  for (const auto& x : by.maps)
    if (x.of_teacher == unit) maps_[teacher_units + x.unit] = map;
}

models::map_lesson lessons::map_of(const models::teaching& by, uint32_t unit, double scale, counting what) {
  if (!maps_[unit].defined()) return {};
  return {maps_[unit], by.attention, scale, what == counting::loss ? &lost_ : nullptr};
}

}  // namespace troupe::actors
