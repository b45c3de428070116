// Owns `troupe plan --layers`: the modules of a model according to its table.
#pragma once

#include <string>

#include "apps/base/output_form.hpp"
#include "config/sections/job_config.hpp"
#include "core/model_table.hpp"

namespace troupe::apps {

/// Returns one line for each layer: unit, module, kind, widths, layout of its weight, its parameters, heads and parts.
/// A parameter that belongs to another layer has its full name.
std::string layers_as_table(const core::model_table& table);

/// Returns the layers as an array of objects. Missing properties are omitted, except `weight` and `bias`, which are
/// null.
std::string layers_as_json(const core::model_table& table);

/// Prints the layers of the configuration's model. Exit codes: 0 done, 2 bad input.
int show_layers(const config::job_config& config, output_form form);

}  // namespace troupe::apps
