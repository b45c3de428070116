#include "storage/memory/memory_room.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace troupe::storage {
namespace {

namespace fs = std::filesystem;

/// Smallest limit that counts as no limit; version 1 of control groups writes the largest multiple of a page for it.
constexpr uint64_t no_limit_bytes = uint64_t{1} << 60;

std::optional<uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  uint64_t n = 0;
  return in >> n ? std::optional(n) : std::nullopt;  // version 2 writes "max" for no limit, which yields nullopt
}

/// Returns the number in the line "key number" or "key: number kB" of a file; 0 if there is no such line.
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

/// Names of a control group's files, and of keys in its memory.stat, in one of the two versions of control groups.
struct group_files {
  const char *limit, *used, *inactive, *active;
};
constexpr group_files version_1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                "total_active_file"};
constexpr group_files version_2{"memory.max", "memory.current", "inactive_file", "active_file"};

std::optional<uint64_t> limit_of(const fs::path& group, const group_files& named) {
  const auto limit = number_in(group / named.limit);
  return limit && *limit < no_limit_bytes ? limit : std::nullopt;
}

std::optional<uint64_t> free_of(const fs::path& group, const group_files& named) {
  const auto limit = limit_of(group, named), used = number_in(group / named.used);
  if (!limit || !used) return std::nullopt;
  const auto stat = group / "memory.stat";
  return left(*limit, *used, number_of(stat, named.inactive) + number_of(stat, named.active));
}

/// Returns the smallest of `machine_bytes` (0: unknown) and the values that `of_group` returns for this process's
/// control groups and their parents; nullopt if there is no value.
std::optional<memory_room> nearest(const fs::path& root, uint64_t machine_bytes,
                                   std::optional<uint64_t> (*of_group)(const fs::path&, const group_files&)) {
  std::optional<memory_room> out;
  if (machine_bytes > 0) out = {machine_bytes, "the machine", machine_bytes};
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    for (fs::path group = line.substr(second + 1);; group = group.parent_path()) {
      const auto folder = root / "sys/fs/cgroup" / controllers / group.relative_path();
      const auto room = of_group(folder, controllers.empty() ? version_2 : version_1);
      if (room && (!out || *room < out->bytes)) out = {*room, "the control group " + folder.string(), machine_bytes};
      if (!group.has_relative_path()) break;
    }
  }
  return out;
}

}  // namespace

std::optional<memory_room> all_memory(const fs::path& root) {
  return nearest(root, number_of(root / "proc/meminfo", "MemTotal") * 1024, limit_of);
}

std::optional<memory_room> free_memory(const fs::path& root) {
  const auto info = root / "proc/meminfo";
  const uint64_t available_kb = number_of(info, "MemAvailable");
  return nearest(root, available_kb == 0 ? 0 : (available_kb + number_of(info, "SwapFree")) * 1024, free_of);
}

}  // namespace troupe::storage
