// Declares the source_format of files that torch.save wrote, an entry of `foreign_formats` in rows.hpp.
#pragma once

#include "formats/source/source_format.hpp"

namespace troupe::formats {

/// Weights in files of torch.save: one file, or a folder of them.
extern const source_format torch_format;

}  // namespace troupe::formats
