// The table of a host's model: names, shapes, ties, layers. No costs; a dry run finds those.
#pragma once

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "models/host/module_model.hpp"

namespace troupe::models {

/// Each unit is one segment. A tensor that several units hold is one parameter, named after the first.
/// Refused, with the unit named: no units, a unit without a name of its own or without a forward, no loss, nothing to
/// train, a parameter that is not a floating tensor on the CPU.
core::result<core::model_table> table_of(const module_model& model);

/// The parameters of a model in the order of its table.
std::vector<at::Tensor> parameters_of(const module_model& model);

/// Refuses a model that is not made like the table's, naming the first difference.
core::result<void> check_alike(const core::model_table& table, const module_model& model);

/// "fp32 [4, 20]"
std::string shape_text(const at::Tensor& t);

}  // namespace troupe::models
