// Declares the two source_formats of DeepSpeed's checkpoints, entries of `foreign_formats` in rows.hpp.
#pragma once

#include "formats/source/source_format.hpp"

namespace troupe::formats {

/// A DeepSpeed checkpoint: the folder of one tag, with files for each rank.
extern const source_format deepspeed_format;
/// A universal checkpoint of DeepSpeed, with a folder for each parameter.
extern const source_format universal_format;

}  // namespace troupe::formats
