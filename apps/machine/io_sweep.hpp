// The settings that `troupe io` tries, what each attained, and which is best. Owns the choice; measuring is
// storage/handle/throughput.hpp's, saying it apps/machine/io_report.hpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"
#include "core/error.hpp"
#include "storage/handle/throughput.hpp"

namespace troupe::apps {

inline constexpr size_t io_settings_max = 1024;  ///< of one sweep
/// Of two settings whose rates are within this part, the one with fewer threads and less memory is advised.
inline constexpr double io_equal_within = 0.03;
inline constexpr size_t io_finalists_max = 12;  ///< settings that get further passes

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
  std::vector<double> read, write;  ///< bytes per second of each pass; empty: not asked for
};

/// The middle of `runs`, the upper one of two; 0 of none.
double median(std::vector<double> runs);

struct io_settings {
  std::vector<storage::throughput_setting> tried;
  size_t left_out = 0;  ///< whose blocks in flight are more than the file
};

/// All combinations, block size outermost. Refused beyond `io_settings_max`, for values outside their limits, and where
/// none fits into a file of `a.bytes`.
core::result<io_settings> settings_of(const io_arguments& a);

/// Measures every setting once, then all again until each had `a.loops` passes, so that a disk's good and bad minutes
/// are everybody's; then the `io_finalists_max` with the highest sums get `a.final_loops` more, so that one lucky pass
/// wins nothing. `say` hears before each pass.
core::result<std::vector<io_point>> sweep(storage::throughput_probe& probe, const io_settings& settings,
                                          const io_arguments& a,
                                          const std::function<void(size_t pass, size_t of)>& say);

/// Those with the most passes, in their order: all, or the finalists.
std::vector<const io_point*> decisive(const std::vector<io_point>& points);

/// The decisive point with the highest median; null where none was measured so.
const io_point* best(const std::vector<io_point>& points, storage::io_kind kind);

/// What to write into `aio`, which serves both directions: the frugal among the decisive whose sum of medians is near
/// the highest (`io_equal_within`). Null for no points.
const io_point* advised(const std::vector<io_point>& points);

}  // namespace troupe::apps
