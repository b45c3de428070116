// Which data a checkpoint's position is a place in. Owns the values; how they are measured and compared is
// actors/session/data_record.hpp's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/files/digest.hpp"

namespace troupe::checkpoint {

inline constexpr size_t max_recorded_sources = 1024;

/// One source of a run's training data.
struct data_source_record {
  std::string name;     ///< its path as the run had it; does not decide
  uint64_t share = 1;   ///< of the samples, in whole numbers
  uint64_t tokens = 0;  ///< all of them, those that validate too
  digest128 digest;     ///< of its tokens
  bool operator==(const data_source_record&) const = default;
};

/// The data that a run's position counts samples of.
struct data_record {
  uint64_t sequence_length = 0;    ///< input tokens of a sample
  double validation_fraction = 0;  ///< of each source's tokens, its end
  std::string tokenizer;           ///< kind and digest; does not decide
  std::vector<data_source_record> sources;
  bool operator==(const data_record&) const = default;
};

}  // namespace troupe::checkpoint
