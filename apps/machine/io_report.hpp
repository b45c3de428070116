// Formats the results of `troupe io` as text (a table, bars, the `aio` section to paste) or JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "apps/machine/io_sweep.hpp"

namespace troupe::apps {

struct io_report {
  std::string folder;       ///< folder of the scratch file
  std::string file_system;  ///< type of the scratch file's file system; empty: unknown
  uint64_t bytes = 0;       ///< bytes that one pass reads or writes
  std::string mode;         ///< mode of access to the scratch file: direct, buffered
  std::string engine;       ///< engine of the requests: io_uring, threads
  std::vector<std::string> remarks;
  std::vector<io_point> points;
};

enum class bar_style : uint8_t { ascii, blocks };  ///< characters of a bar: `#`, or Unicode blocks

inline constexpr size_t io_bars_max = 12;  ///< most bars in each direction, for the fastest settings

/// Returns a line that describes the measurement, the remarks, a row for each setting (median, minimum and maximum of
/// its passes), bars, the best setting and the section. GB are 10^9 bytes.
std::string io_text(const io_report& r, bar_style bars);

/// Returns {"read": {"GB/s", "block_bytes", "queue_depth", ...}, "write": {...}, "aio": {...}, ...} without a direction
/// that was not measured. `aio` has the configuration's key names.
std::string io_json(const io_report& r);

/// Returns the `aio` section of a configuration, which `troupe config check` accepts.
std::string aio_section(const io_point& p);

/// Returns a number of bytes as text with a binary unit: "4 MiB", "512 KiB", "1000 B".
std::string binary_text(uint64_t bytes);

}  // namespace troupe::apps
