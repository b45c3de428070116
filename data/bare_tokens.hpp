// A `.bin` of tokens that nothing beside it describes. Owns what its own bytes say: the header that llm.c's writers put
// before them, and whether they are wider than they are read.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/token_file.hpp"

namespace troupe::data {

struct bare_tokens {
  uint64_t begin_byte = 0;  ///< of the first token
  bin_width width = bin_width::u16;
};

/// Of `file`, whose tokens are below `vocab_size`; `wanted` is the width of those without a header. Refused
/// (bad_input): a header whose number of tokens is not that of the file; tokens that every second number of `wanted`'s
/// width shows to be wider.
core::result<bare_tokens> look_at_tokens(const core::source_file& file, bin_width wanted, uint64_t vocab_size);

}  // namespace troupe::data
