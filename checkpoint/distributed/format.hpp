// The row of torch.distributed.checkpoint in the list of formats.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// A folder of torch.distributed.checkpoint, as FSDP, Accelerate and Megatron-Core write it.
extern const source_format distributed_format;

}  // namespace troupe::checkpoint
