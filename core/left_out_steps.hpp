// Samples that a run leaves out, as they are recorded: which steps would have taken them, and where they stand in the
// global order of samples. Plain values that data, checkpoints and messages share; what follows from them is data/'s.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::core {

/// Positions [begin, end) of the order of samples.
struct sample_range {
  uint64_t begin = 0, end = 0;
  [[nodiscard]] uint64_t size() const { return end - begin; }
  bool operator==(const sample_range&) const = default;
};

/// One decision to leave samples out: those that steps `first` to `last` (from 1) would have taken otherwise.
struct left_out_steps {
  uint64_t first = 0, last = 0;
  bool after_spike = false;           ///< the run's own decision (`on_spike`); else the configuration's
  std::vector<sample_range> samples;  ///< ascending, apart, none empty
  bool operator==(const left_out_steps&) const = default;
};

/// Most decisions of a run, and most ranges of samples of all of them.
inline constexpr size_t left_out_max = 2000, left_out_ranges_max = 1'000'000;

/// For core/byte_stream.hpp.
template <class F>
void fields(F& f, sample_range& x) {
  f(x.begin, x.end);
}
/// Likewise.
template <class F>
void fields(F& f, left_out_steps& x) {
  f(x.first, x.last, x.after_spike, x.samples);
}

}  // namespace troupe::core
