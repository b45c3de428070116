// Owns the settings that `troupe io` tries, and the choice of the best. Leaves measuring to
// storage/handle/throughput.hpp, output to apps/machine/io_report.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"
#include "core/error.hpp"
#include "storage/handle/throughput.hpp"

namespace troupe::apps {

inline constexpr size_t io_settings_max = 1024;  ///< largest number of settings in one sweep
/// Relative difference up to which two rates count as equal; among settings with equal rates, the one with fewer
/// threads and less memory is advised.
inline constexpr double io_equal_within = 0.03;
inline constexpr uint64_t aio_block_multiple = 4096;  ///< `aio.block_size` must be a multiple of this
inline constexpr size_t io_finalists_max = 12;        ///< largest number of settings that get further passes

struct io_arguments {
  std::string folder;
  uint64_t bytes = uint64_t{512} << 20;
  std::vector<uint64_t> block_bytes;
  std::vector<unsigned> queue_depths, threads;
  std::vector<bool> single_submit, overlap_events;
  bool read_only = false, write_only = false;
  unsigned loops = 3, final_loops = 0;
  storage::queue_engine engine = storage::queue_engine::best;
  bool buffered = false, unregistered = false;
  output_form form = output_form::text;
  apps::verbosity verbosity = apps::verbosity::normal;
};

struct io_point {
  storage::throughput_setting setting;
  /// Rates of reading and of writing, in bytes per second, for each pass; empty: not requested.
  std::vector<double> read, write;
};

/// Returns the median of `runs`; for an even number of values, the larger of the two in the middle; 0 if `runs` is
/// empty.
double median(std::vector<double> runs);

struct io_settings {
  std::vector<storage::throughput_setting> tried;
  size_t left_out = 0;  ///< number of settings left out because they have more bytes in flight than the file has
};

/// Returns all combinations of the block sizes, queue depths, numbers of threads and flags in `a`; the block size
/// changes slowest. Settings with more bytes in flight than the file has are counted in `left_out`. Refused: more than
/// `io_settings_max` combinations, values outside their limits, and if no setting is left.
core::result<io_settings> settings_of(const io_arguments& a);

/// Measures every setting once, and repeats this until each has had `a.loops` passes, so that a disk's fast and slow
/// minutes affect all settings. Then measures the `io_finalists_max` settings with the highest sums of read and write
/// rates in `a.final_loops` more passes, so that one lucky pass does not decide. Calls `say` before each pass.
core::result<std::vector<io_point>> sweep(storage::throughput_probe& probe, const io_settings& settings,
                                          const io_arguments& a,
                                          const std::function<void(size_t pass, size_t of)>& say);

/// Returns the points with the largest number of passes, in their order: all points, or those that had the final passes
/// of sweep().
std::vector<const io_point*> decisive(const std::vector<io_point>& points);

/// Returns the decisive() point with the highest median; null if the direction was not measured.
const io_point* best(const std::vector<io_point>& points, storage::io_kind kind);

/// Returns the setting to write into the section `aio`, which is used for reads and writes: the one with the fewest
/// threads and the least memory among the decisive() points whose sum of median rates is within `io_equal_within` of
/// the highest. Points whose block size `aio` does not permit are ignored. Null if no point is left.
const io_point* advised(const std::vector<io_point>& points);

}  // namespace troupe::apps
