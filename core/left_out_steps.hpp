// The record of samples that a run leaves out: the steps that would have used them, and their positions in the global
// order of samples. Plain values that data, checkpoints and messages share; data/ decides which samples the later steps
// use.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::core {

/// Positions [begin, end) in the global order of samples.
struct sample_range {
  uint64_t begin = 0, end = 0;
  [[nodiscard]] uint64_t size() const { return end - begin; }
  bool operator==(const sample_range&) const = default;
};

/// One decision to leave samples out: the samples that steps `first` to `last` (counted from 1) would have used
/// otherwise.
struct left_out_steps {
  uint64_t first = 0, last = 0;
  /// True: the run decided it after a spike of the loss (configuration key `on_spike`); false: the key `data.skip` did.
  bool after_spike = false;
  std::vector<sample_range> samples;  ///< samples that are left out, as ascending, disjoint ranges that are not empty
  bool operator==(const left_out_steps&) const = default;
};

/// Largest number of decisions of a run, and largest number of sample ranges of all decisions together.
inline constexpr size_t left_out_max = 2000, left_out_ranges_max = 1'000'000;

/// Passes every field of the structure to `f`, a byte_writer or byte_reader (core/byte_stream.hpp).
void fields(auto& f, sample_range& x) { f(x.begin, x.end); }
/// Passes every field of the structure to `f`, a byte_writer or byte_reader (core/byte_stream.hpp).
void fields(auto& f, left_out_steps& x) { f(x.first, x.last, x.after_spike, x.samples); }

}  // namespace troupe::core
