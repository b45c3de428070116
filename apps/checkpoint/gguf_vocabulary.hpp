// The vocabulary that a GGUF file carries, from wherever a checkpoint's lies.
#pragma once

#include <string>

#include "checkpoint/gguf/metadata.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// As `--tokenizer` names the project's own.
inline constexpr const char* bytes_name = "bytes";

/// The keys `tokenizer.*` for a model of `tokens` tokens. `wanted` is `bytes` or a path; empty: a GGUF file's own, else
/// what lies in the checkpoint's folder, else the tokenizer that the run's configuration names. Tokens that the model
/// has beyond the vocabulary are called [PAD...] and unused. Refused: none that is found, and one of more tokens than
/// the model has.
core::result<checkpoint::gguf_metadata> gguf_vocabulary(const checkpoint::tensor_source& s, const std::string& wanted,
                                                        uint64_t tokens);

}  // namespace troupe::apps
