// Records which data a checkpoint's position counts samples of. Owns the values; leaves measuring and comparing them to
// actors/loading/data_record.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/files/digest.hpp"

namespace troupe::checkpoint {

inline constexpr size_t max_recorded_sources = 1024;

/// One source of a run's training data.
struct data_source_record {
  std::string name;     ///< path of the source as the run had it; not compared
  uint64_t share = 1;   ///< share of the samples, a whole number relative to the other sources
  uint64_t tokens = 0;  ///< number of all tokens, held-out ones included
  digest128 digest;     ///< digest of the tokens
  bool operator==(const data_source_record&) const = default;
};

/// The data that a run's position counts samples of.
struct data_record {
  uint64_t sequence_length = 0;    ///< input tokens of a sample
  double validation_fraction = 0;  ///< share of each source's tokens that is held out, from its end
  std::string tokenizer;           ///< kind and digest of the tokenizer; not compared
  std::vector<data_source_record> sources;
  bool operator==(const data_record&) const = default;
};

}  // namespace troupe::checkpoint
