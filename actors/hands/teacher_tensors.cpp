#include "actors/hands/teacher_tensors.hpp"

#include "models/layers/distillation.hpp"

namespace troupe::actors {

void teacher_tensors::begins(const models::teaching& by, uint32_t teacher_units, uint32_t unit,
                             const at::Tensor& hidden) {
  for (const auto& x : by.blocks)
    if (x.first == unit) asked_[teacher_units + x.unit] = hidden.detach();
}

void teacher_tensors::ended(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden,
                            double scale, double share) {
  if (unit == 0) lost_ = 0;
  const auto compare = [&](const models::unit_pair& x, double weight) {
    at::Tensor& entry = hidden_[teacher_units + x.unit];
    if (x.of_teacher == unit && unit < teacher_units) entry = hidden;
    if (teacher_units + x.unit != unit) return;
    auto learned = models::learn_hidden(hidden, entry, share * weight, scale);
    entry = std::move(learned.gradient);
    lost_ += learned.loss;
  };
  for (const auto& x : by.hidden) compare(x, by.hidden_states);
  for (const auto& x : by.blocks) compare({x.unit, x.last}, 1);
  if (unit < teacher_units) last_ = hidden;
}

void teacher_tensors::keep_map(const models::teaching& by, uint32_t teacher_units, uint32_t unit,
                               const at::Tensor& map) {
  for (const auto& x : by.maps)
    if (x.of_teacher == unit) maps_[teacher_units + x.unit] = map;
}

models::map_target teacher_tensors::map_of(const models::teaching& by, uint32_t unit, double scale, counting what) {
  if (!maps_[unit].defined()) return {};
  return {maps_[unit], by.attention, scale, what == counting::loss ? &lost_ : nullptr};
}

}  // namespace troupe::actors
