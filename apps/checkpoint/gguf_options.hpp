// What a GGUF file says beside its tensors, from what a checkpoint, its model and its tokenizer say.
#pragma once

#include <string>

#include "apps/checkpoint/model_description.hpp"
#include "checkpoint/convert/gguf_export.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// All but place and progress. `tokenizer` as gguf_vocabulary() takes it. Refused: a model that is not known, whose
/// parameters the checkpoint has not, or that llama.cpp would compute otherwise; no vocabulary.
core::result<checkpoint::gguf_export_options> gguf_options_of(const described_checkpoint& from,
                                                              const checkpoint::gguf_mixture& type,
                                                              const std::string& tokenizer);

}  // namespace troupe::apps
