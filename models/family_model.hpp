// What the two families share: the table, the checks of a call, and the factories of each family.
#pragma once

#include <memory>

#include "models/language_model.hpp"

namespace troupe::models {

std::unique_ptr<language_model> make_gpt2(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns);

}  // namespace troupe::models
