// Opens a source of samples that are more than a text: conversations, prompts with answers, and tokens with labels.
// Owns the stream of packed rows that they become; leaves rows of files to data/formats, conversations to data/chat.
#pragma once

#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "core/sample_types.hpp"
#include "data/chat/sample_rows.hpp"
#include "data/token_stream.hpp"

namespace troupe::data {

struct sample_options {
  sample_reading reading;
  core::long_sample too_long = core::long_sample::refuse;
  core::sample_packing packing = core::sample_packing::best_fit;
  uint64_t sequence = 0;           ///< length of a row in tokens; no sample is longer
  double validation_fraction = 0;  ///< share of the samples that is held out for validation, from the source's end
  uint32_t fill = 0;               ///< token after the samples of a row that is not full
};

/// Opens the samples of `source`, and packs them into rows (data/chat/packing.hpp): those for training first, then
/// those that are held out. Each sample is a document. Errors (bad_input): those of read_samples(); with file and line,
/// a sample that is longer than a row, with long_sample::refuse, or whose first tokens, with long_sample::cut, do not
/// count; too few samples for training or validation. Further errors: those of opening files.
core::result<std::shared_ptr<const token_stream>> open_samples(const source_options& source,
                                                               const sample_options& samples);

/// Returns the first sample of a stream of packed samples. Errors: those of reading.
core::result<chat_sample> first_sample_of(const token_stream& packed);

}  // namespace troupe::data
