// Fits the optimizer states of a checkpoint to the optimizer that a written folder describes, so that the folder has
// the states that this optimizer keeps, for each trained parameter.
#pragma once

#include <filesystem>

#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::apps {

/// Changes the states of `s` to the states that the optimizer in `file` has; if `file` is empty, the optimizer in the
/// checkpoint's configuration. Does nothing if `s` has no moments. A parameter without states becomes frozen if the
/// configuration freezes it, else it gets moments of 0; a head that the configuration's model ties to the embedding
/// becomes a tied name. Moments that the optimizer does not use are omitted. Warns about added and omitted moments.
/// Refused: a parameter that has some of the moments but not all, no configuration, or one that does not load.
core::result<void> fit_states(formats::tensor_source& s, const source_arguments& from,
                              const std::filesystem::path& file);

}  // namespace troupe::apps
