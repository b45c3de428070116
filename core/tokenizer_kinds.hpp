// Names the kinds of tokenizers that a path may have, for messages and for the documentation of configuration keys.
// data/tokenizers/opening/ opens these kinds.
#pragma once

#include <string_view>

namespace troupe::core {

/// Reads on after "the path of" or "wanted".
inline constexpr std::string_view tokenizer_kinds =
    "a tokenizer.json, a SentencePiece .model, a list of words (tiktoken's, tekken.json), a folder with one of them or "
    "with vocab.json and merges.txt, or a GGUF file";

}  // namespace troupe::core
