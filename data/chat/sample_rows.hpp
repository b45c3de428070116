// Reads the samples of a file one after the other: its rows as objects, conversations, text, tokens. Owns the order of
// these steps, and that an error names the row.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "core/sample_types.hpp"
#include "core/source_file.hpp"
#include "data/chat/chat_format.hpp"
#include "data/chat/chat_sample.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {

/// How the rows of a file become samples.
struct sample_reading {
  core::sample_form form = core::sample_form::chat;
  core::loss_part loss_on = core::loss_part::assistant;
  /// Template and tokenizer of conversations; null for labelled tokens.
  std::shared_ptr<const chat_format> format = {};
  std::string messages_key = {};  ///< column of a conversation's messages; empty: one of the usual names
  uint64_t vocab_size = 0;        ///< every token is below this number
};

/// Function that receives a sample, the place of its row for errors, and the byte of the file that the reader has
/// reached. An error of the function ends the reading.
using sample_visit = std::function<core::result<void>(chat_sample&& sample, const std::string& place, uint64_t byte)>;

/// Passes the samples of `file`, whose kind is `kind`, to `visit`. Errors: those of read_objects(); bad_input, with the
/// row's place: those of conversation_of(), render(), sample_of() and labelled_tokens_of(), a token outside the
/// vocabulary, a sample of which no token counts.
core::result<void> read_samples(source_kind kind, const core::source_file& file, const sample_reading& how,
                                uint64_t& bytes_left, const sample_visit& visit);

}  // namespace troupe::data
