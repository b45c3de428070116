// Declares the source_format of torch.distributed.checkpoint, an entry of `all_formats` in convert/formats.hpp.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// A folder of torch.distributed.checkpoint, as FSDP, Accelerate and Megatron-Core write it.
extern const source_format distributed_format;

}  // namespace troupe::checkpoint
