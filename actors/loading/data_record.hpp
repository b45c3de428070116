// Compares the data of a run with the data that a checkpoint's position refers to. Owns the compared properties: the
// tokens, the one that ends documents, how they are cut into windows, which are held out, and how sources are mixed.
// The paths, times and packing of files are not compared.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/native/data_record.hpp"
#include "core/error.hpp"
#include "data/corpus.hpp"

namespace troupe::actors {

/// The most tokens that the digests read, summed over all sources: a shorter source is read whole; else blocks are read
/// that are spread evenly over it and include its first and last tokens.
inline constexpr uint64_t digested_tokens = uint64_t{1} << 22;
inline constexpr uint64_t digested_block_tokens = 4096;

/// Returns the record of `corpus`, whose sources are called `names`. Errors: those of reading the sources.
core::result<checkpoint::data_record> record_of(const data::corpus& corpus, const std::vector<std::string>& names,
                                                double validation_fraction, const std::string& tokenizer);

struct data_change {
  std::vector<std::string> differences;  ///< a few words each; empty: the same data
  /// Tokens of the validation part now that the run was trained on, if the text only grew.
  uint64_t validates_trained = 0;
};

data_change compare(const checkpoint::data_record& was, const checkpoint::data_record& now);

/// Returns a sentence for the user: the effects that the changed data have on a run that continues at `sample`.
std::string sentence_of(const data_change& change, uint64_t sample);

}  // namespace troupe::actors
