// The row of files of torch.save in the list of formats.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// Weights in files of torch.save: one file, or a folder of them.
extern const source_format torch_format;

}  // namespace troupe::checkpoint
