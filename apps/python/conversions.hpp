// Runs `troupe.checkpoint.convert`: the commands `troupe checkpoint to-...` and `reshape`, by name and with their
// options.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "apps/checkpoint/checkpoint_arguments.hpp"

namespace troupe::apps {

/// Writes `output` from `source` with the command `to`: fp32, hf, gguf, deepspeed, universal, dcp, reshape. `options`
/// are the command's own, with underscores for dashes. Throws python_error.
void convert(const source_arguments& source, const output_arguments& output, const std::string& to,
             const nanobind::dict& options);

}  // namespace troupe::apps
