// Declares the source_format of Troupe's own checkpoints, an entry of `all_formats` in convert/formats.hpp.
#pragma once

#include "formats/source/source_format.hpp"

namespace troupe::checkpoint {

/// A checkpoint of Troupe, or a folder of checkpoints from which open() takes the one that `latest` names.
extern const formats::source_format troupe_format;

}  // namespace troupe::checkpoint
