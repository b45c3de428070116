// Whether the texts and the tokenizer of a job will do, as `troupe train` finds when it opens them.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "job/blueprint.hpp"

namespace troupe::apps {

/// Texts up to this size are read, to see that they are enough; of longer ones it is supposed.
inline constexpr uint64_t read_text_bytes_max = uint64_t{64} << 20;

/// With this share of the texts held out. Errors (bad_input): what train would say.
core::result<void> check_data(const job::blueprint& b, double validation_fraction);

}  // namespace troupe::apps
