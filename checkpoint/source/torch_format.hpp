// Declares the source_format of files that torch.save wrote, an entry of `all_formats` in convert/formats.hpp.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// Weights in files of torch.save: one file, or a folder of them.
extern const source_format torch_format;

}  // namespace troupe::checkpoint
