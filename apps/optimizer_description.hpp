// The optimizer of the run that wrote a checkpoint, as DeepSpeed's files have it.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/deepspeed_writer.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Parameter groups from the configuration that the checkpoint keeps, or from `file`, a topology or ds_config.json,
/// where that is given. Refused: no configuration, one that does not load.
core::result<std::vector<checkpoint::deepspeed_parameter_group>> describe_optimizer(const checkpoint::tensor_source& s,
                                                                                    const std::filesystem::path& file);

}  // namespace troupe::apps
