// Checks the texts and the tokenizer of a job as `troupe train` does when it opens them.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "job/blueprint.hpp"

namespace troupe::apps {

/// Largest size in bytes of texts that are read to check whether they have enough tokens; larger texts pass unread.
inline constexpr uint64_t read_text_bytes_max = uint64_t{64} << 20;

/// Checks a job's tokenizer and texts, with the fraction `validation_fraction` of the texts held out. Errors
/// (bad_input): those that `troupe train` would report.
core::result<void> check_data(const job::blueprint& b, double validation_fraction);

}  // namespace troupe::apps
