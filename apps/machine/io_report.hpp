// What `troupe io` measured, for people and for programs: a table, bars, the `aio` section to paste, JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "apps/machine/io_sweep.hpp"

namespace troupe::apps {

struct io_report {
  std::string folder;       ///< where the scratch file was
  std::string file_system;  ///< empty: unknown
  uint64_t bytes = 0;       ///< of one pass
  std::string mode;         ///< direct, buffered
  std::string engine;       ///< io_uring, threads
  std::vector<std::string> remarks;
  std::vector<io_point> points;
};

enum class bar_style : uint8_t { ascii, blocks };  ///< of `#`, or of Unicode blocks

inline constexpr size_t io_bars_max = 12;  ///< of each direction, the fastest

/// A line for what was measured, the remarks, a row for each setting (median, least and most of its passes), bars, the
/// best, the section. GB are 10^9 bytes.
std::string io_text(const io_report& r, bar_style bars);

/// {"read": {"GB/s", "block_bytes", "queue_depth", ...}, "write": {...}, "aio": {...}, ...}; a direction that was not
/// measured is missing. `aio` has the configuration's key names.
std::string io_json(const io_report& r);

/// The section of a topology, which `troupe config check` accepts.
std::string aio_section(const io_point& p);

/// "4 MiB", "512 KiB", "1000 B".
std::string binary_text(uint64_t bytes);

}  // namespace troupe::apps
