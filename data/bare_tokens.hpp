// Examines a `.bin` file of tokens that has no description (NAME.bin.json) next to it. Owns the evidence in the file's
// own bytes: the header that llm.c's programs write before the tokens, and signs that the tokens are wider than the
// assumed width.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/token_file.hpp"

namespace troupe::data {

struct bare_tokens {
  uint64_t begin_byte = 0;  ///< offset of the first token in the file, in bytes
  bin_width width = bin_width::u16;
};

/// Returns where the tokens of `file` begin and how wide they are. `wanted` is the width that is assumed for a file
/// without a header. Refused (bad_input): a header whose number of tokens does not fit the file's size; a file whose
/// 16-bit words show, or make it likely, that its tokens are wider than `wanted`.
core::result<bare_tokens> look_at_tokens(const core::source_file& file, bin_width wanted);

}  // namespace troupe::data
