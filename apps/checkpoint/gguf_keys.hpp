// Collects the metadata of a GGUF file from a checkpoint, its model and its tokenizer; finds the vocabulary.
#pragma once

#include <string>

#include "apps/checkpoint/described_checkpoint.hpp"
#include "checkpoint/convert/gguf_export.hpp"
#include "core/error.hpp"
#include "formats/gguf/metadata.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::apps {

/// Value of `--tokenizer` for Troupe's byte tokenizer.
inline constexpr const char* bytes_name = "bytes";

/// Returns the keys `tokenizer.*` for a model of `tokens` tokens. `wanted` is `bytes` or the path of a tokenizer;
/// empty: the vocabulary of a GGUF file as the source, else the tokenizer in the checkpoint's folder, else the
/// tokenizer in the run's configuration. Tokens of the model beyond the vocabulary are named [PAD...] and unused.
/// A vocabulary without a token for the begin or the end of a text names one that no text contains. Refused: no
/// vocabulary is found, it has more tokens than the model, or llama.cpp would treat its spaces otherwise. Notes of `a`
/// say which texts llama.cpp encodes otherwise than a SentencePiece model does.
core::result<formats::gguf_metadata> gguf_vocabulary(const source_arguments& a, const formats::tensor_source& s,
                                                     const std::string& wanted, uint64_t tokens);

/// Returns all options except the output path and the progress. `tokenizer`: see gguf_vocabulary(). Refused: an unknown
/// model, a checkpoint without the model's parameters, a model that llama.cpp would compute differently; no vocabulary.
core::result<checkpoint::gguf_export_options> gguf_options_of(const source_arguments& a,
                                                              const described_checkpoint& from,
                                                              const formats::gguf_mixture& type,
                                                              const std::string& tokenizer);

}  // namespace troupe::apps
