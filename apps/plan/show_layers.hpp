// `troupe plan --layers`: the modules of a model as its table has them.
#pragma once

#include <string>

#include "apps/base/output_form.hpp"
#include "config/sections/job_config.hpp"
#include "core/model_table.hpp"

namespace troupe::apps {

/// One line for each layer: unit, module, kind, widths, how its weight lies, its parameters, heads and parts. A
/// parameter of another layer's is named in full.
std::string layers_as_table(const core::model_table& table);

/// The same as an array of objects; what a layer lacks is left out, but for `weight` and `bias`, which are null.
std::string layers_as_json(const core::model_table& table);

/// Prints the layers of the configuration's model. Exit codes: 0 well, 2 bad input.
int show_layers(const config::job_config& config, output_form form);

}  // namespace troupe::apps
