// Compares the data of a run with the data that a checkpoint was trained on, to which the sample number in the
// checkpoint refers. Owns the compared properties: the tokens, the token that ends documents, the window length, the
// validation part, how sources are mixed and shuffled, whether attention stays within documents, and the choice of
// masked tokens; and the tokens of validation sets of the same name. Paths, times and file formats are not compared.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/corpus.hpp"
#include "formats/source/data_record.hpp"

namespace troupe::actors {

/// Number of tokens, over all sources, that the digests of texts cover at most. A source with at most its part of this
/// number is read completely; of a longer one, blocks are read that are spread evenly over it and include its first and
/// last tokens.
inline constexpr uint64_t digested_tokens = uint64_t{1} << 22;
inline constexpr uint64_t digested_block_tokens = 4096;
/// Number of tokens of one validation set that its digest covers at most; the number of sets does not change digests.
inline constexpr uint64_t digested_set_tokens = uint64_t{1} << 18;

/// Returns the record by which a later run compares its data with `corpus`, whose sources are called `names`. The
/// digest of packed samples covers which tokens count, and how the samples were made. Errors: those of reading the
/// sources.
core::result<formats::data_record> record_of(const data::corpus& corpus, const std::vector<std::string>& names,
                                             double validation_fraction, const std::string& tokenizer);

struct data_change {
  std::vector<std::string> differences;  ///< a few words for each difference; empty: the data are equal
  bool has_other_order = false;          ///< true: a sample number refers to other tokens than before
  /// Number of tokens of the present validation part that the run may have been trained on, because the text has grown
  /// or the fraction has changed.
  uint64_t validates_trained = 0;
};

data_change compare(const formats::data_record& was, const formats::data_record& now);

/// Returns a text for the user that says what a run which continues at sample `sample` does with the changed data.
std::string sentence_of(const data_change& change, uint64_t sample);

}  // namespace troupe::actors
