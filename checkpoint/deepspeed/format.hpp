// The rows of DeepSpeed's checkpoints in the list of formats.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// A folder of a tag, with a file for each rank.
extern const source_format deepspeed_format;
/// A universal folder, with a folder for each parameter.
extern const source_format universal_format;

}  // namespace troupe::checkpoint
