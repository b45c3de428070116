// Reads vocab.json and merges.txt as GPT-2's tokenizer writes them, and refuses truncated files and files of another
// kind.
#pragma once

#include <filesystem>
#include <memory>

#include "core/error.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// Opens GPT-2's tokenizer from its two files, vocab.json and merges.txt.
core::result<std::unique_ptr<tokenizer>> open_byte_pair(const std::filesystem::path& vocab,
                                                        const std::filesystem::path& merges,
                                                        special_words special = special_words::ordinary);

}  // namespace troupe::data
