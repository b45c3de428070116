// Lists the formats of checkpoints that Troupe opens. A new format requires a source_format, defined next to the
// format's reader, and an entry here; code that handles all formats names none of them.
#pragma once

#include <array>

#include "checkpoint/commit/open_native.hpp"
#include "formats/compressed/source.hpp"
#include "formats/deepspeed/source.hpp"
#include "formats/deepspeed/universal_source.hpp"
#include "formats/distributed/source.hpp"
#include "formats/gguf/source.hpp"
#include "formats/source/source_format.hpp"
#include "formats/weights/torch.hpp"

namespace troupe::checkpoint {

/// All formats: Troupe's own, then those of other programs. If several of them recognise a path, the first one in this
/// list that is certain of it is chosen, or else the first one that finds it possible (see `likeness`).
inline constexpr std::array<const formats::source_format*, 7> all_formats{&troupe_format,
                                                                          &formats::universal_format,
                                                                          &formats::distributed_format,
                                                                          &formats::deepspeed_format,
                                                                          &formats::hugging_face_format,
                                                                          &formats::torch_format,
                                                                          &formats::gguf_format};

}  // namespace troupe::checkpoint
