// Generates random models whose first units belong to a distillation teacher, whole and cut into stages.
#pragma once

#include "tests/plan/cuts.hpp"

namespace troupe::plan {

/// Returns a random model whose first one or two units, with all parameters that they read, belong to a teacher. The
/// first teacher unit is computed in the stage of the model's first unit, the second one in the stage of a random
/// unit.
inline shared_table random_taught_table(std::mt19937_64& random) {
  auto table = *random_table(random, 3);
  table.teacher_units = static_cast<uint32_t>(1 + random() % 2);
  table.teacher_bytes = 64 * (random() % 40);
  for (uint32_t u = 0; u < table.teacher_units; ++u) {
    const auto own = static_cast<uint32_t>(table.units.size()) - table.teacher_units;
    table.beside.push_back(table.teacher_units + static_cast<uint32_t>(u == 0 ? 0 : random() % own));
    for (const uint32_t q : table.units[u].parameters) {
      table.parameters[q].trainable = false;
      table.parameters[q].of_teacher = true;
    }
  }
  return std::make_shared<const core::model_table>(std::move(table));
}

/// Returns a random model with a teacher, and a random cut of it into stages.
inline std::pair<shared_table, plan_options> random_taught_cut(std::mt19937_64& random, std::optional<mode> of = {}) {
  return random_cut_of(random_taught_table, random, of);
}

}  // namespace troupe::plan
