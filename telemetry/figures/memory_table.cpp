#include "telemetry/figures/memory_table.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "core/text.hpp"

namespace troupe::telemetry {

std::string memory_breakdown(const std::string& when, const std::vector<memory_row>& rows, uint64_t process_bytes) {
  const auto padded = [](std::string s, size_t width) {
    return std::string(width > s.size() ? width - s.size() : 0, ' ') + s;
  };
  std::string out = "memory " + when + "\n  rank  tier";
  std::vector<size_t> shown;  // indices in memory_row::owners of the columns to print: owners with bytes on some rank
  const size_t num_owners = rows.empty() ? 0 : rows.front().owners.size();
  for (size_t i = 0; i < num_owners; ++i)
    if (std::any_of(rows.begin(), rows.end(), [i](const auto& r) { return r.owners[i].second > 0; }))
      shown.push_back(i);
  for (size_t i : shown) out += "  " + padded(rows.front().owners[i].first, 9);
  out += "      total\n";
  for (const auto& r : rows) {
    out += "  " + padded(fmt::to_string(r.rank), 4) + "  " + r.tier;
    for (size_t i : shown)
      out += "  " + padded(core::human_bytes(r.owners[i].second), std::max<size_t>(9, r.owners[i].first.size()));
    out += "  " + padded(core::human_bytes(r.total()), 9) + "\n";
  }
  if (process_bytes > 0) out += "  the whole process: " + core::human_bytes(process_bytes) + "\n";
  return out;
}

uint64_t process_resident_bytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  if (!(in >> size >> resident)) return 0;
  return resident * static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
}

uint64_t process_peak_bytes() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<uint64_t>(u.ru_maxrss) * 1024;
}

}  // namespace troupe::telemetry
