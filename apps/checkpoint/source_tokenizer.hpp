// Finds the tokenizer of a checkpoint, for commands that read a text with its model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/checkpoint/described_checkpoint.hpp"
#include "core/error.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::apps {

/// Returns the tokenizer `given` by `--tokenizer`, a path or `bytes`; if it is empty, the checkpoint's own; else that
/// of its run; else the byte tokenizer, if the model's `vocabulary` has at most 256 tokens. Refused: a checkpoint
/// without any of them, and a tokenizer that cannot be opened.
core::result<std::shared_ptr<data::tokenizer>> tokenizer_of(const std::string& given, const described_checkpoint& from,
                                                            uint64_t vocabulary);

}  // namespace troupe::apps
