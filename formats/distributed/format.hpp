// Declares the source_format of torch.distributed.checkpoint, an entry of `foreign_formats` in rows.hpp.
#pragma once

#include "formats/source/source_format.hpp"

namespace troupe::formats {

/// A folder of torch.distributed.checkpoint, as FSDP, Accelerate and Megatron-Core write it.
extern const source_format distributed_format;

}  // namespace troupe::formats
