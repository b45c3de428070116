// Finds the vocabulary of a GGUF file, wherever the checkpoint's vocabulary is stored.
#pragma once

#include <string>

#include "checkpoint/gguf/metadata.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Value of `--tokenizer` for Troupe's byte tokenizer.
inline constexpr const char* bytes_name = "bytes";

/// Returns the keys `tokenizer.*` for a model of `tokens` tokens. `wanted` is `bytes` or a path; empty: a GGUF file's
/// own, else the tokenizer in the checkpoint's folder, else the one that the run's configuration names. Tokens of the
/// model beyond the vocabulary are named [PAD...] and unused. Refused: no vocabulary is found, or it has more tokens
/// than the model.
core::result<checkpoint::gguf_metadata> gguf_vocabulary(const checkpoint::tensor_source& s, const std::string& wanted,
                                                        uint64_t tokens);

}  // namespace troupe::apps
