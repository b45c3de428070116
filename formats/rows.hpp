// Lists the formats of other programs that Troupe opens. A new format requires a source_format, defined in the
// format's own folder, and an entry here; no other code names a format of another program.
#pragma once

#include <array>

#include "formats/compressed/source.hpp"
#include "formats/deepspeed/source.hpp"
#include "formats/deepspeed/universal_source.hpp"
#include "formats/distributed/source.hpp"
#include "formats/gguf/source.hpp"
#include "formats/weights/torch.hpp"

namespace troupe::formats {

/// The formats of other programs. If several of them recognise a path, the first one in this list that is certain
/// of it is chosen, or else the first one that finds it possible (see `likeness`).
inline constexpr std::array foreign_formats{&universal_format,    &distributed_format, &deepspeed_format,
                                            &hugging_face_format, &torch_format,       &gguf_format};

}  // namespace troupe::formats
