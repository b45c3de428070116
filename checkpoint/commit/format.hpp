// The row of Troupe's own checkpoints in the list of formats.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// A checkpoint of Troupe, or a folder of checkpoints from which open() takes the one that `latest` names.
extern const source_format troupe_format;

}  // namespace troupe::checkpoint
