// Tied weights as parameters of their own: where uses of a shared parameter lie on different ranks, or where their
// gradients are to be summed use by use, each later use reads a copy. Pure functions of the model's table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_table.hpp"

namespace troupe::core {

/// The table in which every unit that reads a shared parameter, but for the first, reads a copy of its own: named
/// "NAME (UNIT)", behind all parameters, whose numbers stay, in the order of units. Its unit, segments and layers name
/// the copy. A table without shared parameters stays as it is.
model_table with_copies(model_table table);

bool has_copies(const model_table& table);
/// Whether units share a parameter, which `with_copies` would change.
bool has_shared(const model_table& table);

/// For each parameter that has copies: its number, then theirs, in the order of the units that read them.
std::vector<std::vector<uint32_t>> uses_of_tied(const model_table& table);

}  // namespace troupe::core
