// Collects the metadata of a GGUF file from a checkpoint, its model and its tokenizer.
#pragma once

#include <string>

#include "apps/checkpoint/model_description.hpp"
#include "checkpoint/convert/gguf_export.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Returns all options except the output path and the progress. `tokenizer`: see gguf_vocabulary(). Refused: an unknown
/// model, a checkpoint without the model's parameters, a model that llama.cpp would compute differently; no vocabulary.
core::result<checkpoint::gguf_export_options> gguf_options_of(const described_checkpoint& from,
                                                              const checkpoint::gguf_mixture& type,
                                                              const std::string& tokenizer);

}  // namespace troupe::apps
