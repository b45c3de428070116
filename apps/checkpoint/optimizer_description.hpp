// Describes the optimizer and precision of the run that wrote a checkpoint, in the form of DeepSpeed's files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "formats/deepspeed/write/writer.hpp"

namespace troupe::apps {

/// Returns the configuration of the optimizer from `file`, a topology or ds_config.json; if `file` is empty, from the
/// checkpoint. Refused: no configuration, one without an optimizer, or one that does not load.
core::result<config::job_config> optimizer_configuration(const formats::tensor_source& s,
                                                         const std::filesystem::path& file);

struct optimizer_description {
  std::vector<formats::deepspeed_parameter_group> groups;
  std::string ds_config;  ///< JSON: batch, clipping and precision of the run, for an engine with `stage` and `type`
};

/// Returns the description of the optimizer in the configuration that optimizer_configuration() returns. Refused:
/// whatever optimizer_configuration() refuses.
core::result<optimizer_description> describe_optimizer(const formats::tensor_source& s,
                                                       const std::filesystem::path& file, uint32_t stage,
                                                       core::dtype type);

}  // namespace troupe::apps
