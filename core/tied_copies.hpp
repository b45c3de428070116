// Turns tied weights into separate parameters: if the uses of a shared parameter are on different ranks, or if the
// gradient of each use is to be summed separately first, every use after the first reads a copy. Pure functions of the
// model's table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_table.hpp"

namespace troupe::core {

/// Returns the table in which every unit that reads a shared parameter, except the first, reads its own copy: named
/// "NAME (UNIT)" and appended after all parameters, whose indices stay, in the order of units. The unit, its segments
/// and layers refer to the copy. A table without shared parameters is returned unchanged.
model_table with_copies(model_table table);

bool has_copies(const model_table& table);
/// True if two units share a parameter, so that `with_copies` would change the table.
bool has_shared(const model_table& table);

/// Returns for each parameter that has copies its index, followed by the indices of the copies, in the order of the
/// units that read them.
std::vector<std::vector<uint32_t>> uses_of_tied(const model_table& table);

}  // namespace troupe::core
