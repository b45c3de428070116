// Describes the training data whose samples the data position of a checkpoint counts. Owns the values; leaves measuring
// and comparing them to actors/loading/data_record.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/files/digest.hpp"

namespace troupe::formats {

inline constexpr size_t max_recorded_sources = 1024;

/// One source of a run's training data.
struct data_source_record {
  std::string name;     ///< path of the source in the run that saved the record; a resuming run does not compare it
  uint64_t share = 1;   ///< weight of the source in the mixture of samples, relative to the other sources
  uint64_t tokens = 0;  ///< number of tokens of the source, held-out ones included
  storage::digest128 digest;  ///< digest of the source's tokens: of all, or, in a long source, of blocks spread over it
  bool operator==(const data_source_record&) const = default;
};

/// A validation set of a run that is a text of its own.
struct validation_record {
  std::string set;            ///< name of the set
  uint64_t tokens = 0;        ///< number of tokens of the text
  storage::digest128 digest;  ///< digest of the tokens, as that of a source
  bool operator==(const validation_record&) const = default;
};

/// How a run chooses the tokens that an encoder has to find, apart from the seed.
struct masking_record {
  double probability = 0;       ///< probability with which a token is chosen
  double mask = 0, random = 0;  ///< shares of the chosen tokens that the mask token, and that a random token, replaces
  uint32_t mask_token = 0;
  uint64_t vocabulary = 0;     ///< number of tokens from which random ones are drawn
  storage::digest128 special;  ///< digest of the tokens that are never chosen, ascending, as 32-bit numbers
  bool operator==(const masking_record&) const = default;
};

/// The training data of a run; the run's data position counts samples of these data.
struct data_record {
  uint64_t sequence_length = 0;    ///< number of input tokens of one sample
  double validation_fraction = 0;  ///< fraction of each source's tokens, its last ones, that is held out for validation
  std::string tokenizer;           ///< kind and digest of the tokenizer; compared only if a source's tokens differ
  std::vector<data_source_record> sources;
  std::vector<validation_record> validation{};  ///< validation sets besides the held-out parts of the sources
  bool shuffled = true;                         ///< false: every epoch has the samples in the order of their source
  /// Token that follows each document. The inner optional is empty if documents end without a token, the outer one if
  /// this is unknown.
  std::optional<std::optional<uint32_t>> end_of_text{};
  std::optional<bool> document_mask{};      ///< true: attention stays within documents; none: unknown
  std::optional<masking_record> masking{};  ///< none: the model finds the next token, or this is unknown
  bool operator==(const data_record&) const = default;
};

}  // namespace troupe::formats
