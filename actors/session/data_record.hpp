// Compares the data of a run with the data that a checkpoint's position refers to. Owns the properties: the tokens,
// how they are cut into windows, what is held out, how sources are mixed; not where files lie, when they were written
// or how they are packed.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/native/data_record.hpp"
#include "core/error.hpp"
#include "data/corpus.hpp"

namespace troupe::actors {

/// The most tokens that the digests read of all sources together: all of a shorter source, else blocks that are spread
/// evenly over it, including its first and last tokens.
inline constexpr uint64_t digested_tokens = uint64_t{1} << 22;
inline constexpr uint64_t digested_block_tokens = 4096;

/// `names`: of the sources. Errors: those of reading them.
core::result<checkpoint::data_record> record_of(const data::corpus& corpus, const std::vector<std::string>& names,
                                                double validation_fraction, const std::string& tokenizer);

struct data_change {
  std::vector<std::string> differences;  ///< a few words each; empty: the same data
  uint64_t validates_trained = 0;        ///< tokens that validate now and were trained on, where the text only grew
};

data_change compare(const checkpoint::data_record& was, const checkpoint::data_record& now);

/// A sentence for people: the effects of the change on a run that continues at `sample`.
std::string sentence_of(const data_change& change, uint64_t sample);

}  // namespace troupe::actors
