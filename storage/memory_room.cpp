#include "storage/memory_room.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace troupe::storage {
namespace {

namespace fs = std::filesystem;

/// Version 1 spells "no limit" as the largest multiple of a page.
constexpr uint64_t no_limit_bytes = uint64_t{1} << 60;

std::optional<uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  uint64_t n = 0;
  return in >> n ? std::optional(n) : std::nullopt;  // "max" is none
}

/// The number behind `key` in lines of "key number" or "key: number kB"; 0 where there is none.
uint64_t number_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t n = 0;
    if (words >> name >> n && (name == key || name == key + ":")) return n;
  }
  return 0;
}

uint64_t left(uint64_t limit, uint64_t used, uint64_t given_back) {
  const uint64_t held = used - std::min(used, given_back);
  return limit - std::min(limit, held);
}

std::optional<uint64_t> room_of_version_2(const fs::path& group) {
  const auto limit = number_in(group / "memory.max"), used = number_in(group / "memory.current");
  if (!limit || !used) return std::nullopt;
  const auto stat = group / "memory.stat";
  return left(*limit, *used, number_of(stat, "inactive_file") + number_of(stat, "active_file"));
}

std::optional<uint64_t> room_of_version_1(const fs::path& group) {
  const auto limit = number_in(group / "memory.limit_in_bytes"), used = number_in(group / "memory.usage_in_bytes");
  if (!limit || !used || *limit >= no_limit_bytes) return std::nullopt;
  const auto stat = group / "memory.stat";
  return left(*limit, *used, number_of(stat, "total_inactive_file") + number_of(stat, "total_active_file"));
}

}  // namespace

std::optional<memory_room> read_memory_room(const fs::path& root) {
  const auto info = root / "proc/meminfo";
  const uint64_t available_kb = number_of(info, "MemAvailable");
  if (available_kb == 0) return std::nullopt;
  memory_room out{(available_kb + number_of(info, "SwapFree")) * 1024, "the machine"};
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    for (fs::path group = line.substr(second + 1);; group = group.parent_path()) {
      const auto folder = root / "sys/fs/cgroup" / controllers / group.relative_path();
      const auto room = controllers.empty() ? room_of_version_2(folder) : room_of_version_1(folder);
      if (room && *room < out.bytes) out = {*room, "the control group " + folder.string()};
      if (!group.has_relative_path()) break;
    }
  }
  return out;
}

}  // namespace troupe::storage
