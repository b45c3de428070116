// Random models whose first units are a teacher's.
#pragma once

#include "tests/plan/samples.hpp"

namespace troupe::plan {

/// A random model of which one or two units in front are a teacher's, with all that they read.
inline shared_table random_taught_table(std::mt19937_64& random) {
  auto table = *random_table(random, 3);
  table.teacher_units = static_cast<uint32_t>(1 + random() % 2);
  for (uint32_t u = 0; u < table.teacher_units; ++u)
    for (const uint32_t q : table.units[u].parameters) {
      table.parameters[q].trainable = false;
      table.parameters[q].of_teacher = true;
    }
  return std::make_shared<const core::model_table>(std::move(table));
}

}  // namespace troupe::plan
