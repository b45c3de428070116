#include "apps/machine/machine.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/number.hpp"
#include "core/text.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::apps {
namespace fs = std::filesystem;
namespace {

constexpr size_t file_bytes_max = size_t{1} << 22;  // enough for /proc/cpuinfo of a machine with a thousand cores

std::string slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text;
  char block[4096];  // /proc/sys refuses large reads
  while (text.size() < file_bytes_max && (in.read(block, sizeof block), in.gcount() > 0))
    text.append(block, static_cast<size_t>(in.gcount()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::optional<uint64_t> number(const std::string& text) {
  std::string_view t = core::trimmed(text, " \t");
  if (t.rfind("unlimited", 0) == 0 || t == "max") return unlimited;
  return core::take_number<uint64_t>(t);
}

// Returns the lines "key<separator>value" of a text, in order.
std::vector<std::pair<std::string, std::string>> pairs(const std::string& text, char separator) {
  std::vector<std::pair<std::string, std::string>> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (const auto at = line.find(separator); at != std::string::npos)
      out.emplace_back(core::trimmed(line.substr(0, at), " \t"), core::trimmed(line.substr(at + 1), " \t"));
  return out;
}

void read_processor(const fs::path& root, machine_facts& m) {
  for (const auto& [key, value] : pairs(slurp(root / "proc/cpuinfo"), ':')) {
    if (key == "processor") ++m.cores;
    if (key == "model name" && m.processor.empty()) m.processor = value;
    if ((key == "flags" || key == "Features") && m.cpu_flags.empty()) {
      std::istringstream words(value);
      m.cpu_flags.assign(std::istream_iterator<std::string>(words), {});
    }
  }
}

/// Returns the word in brackets, as in `always [madvise] never`; empty if there is none.
std::string chosen_in(const std::string& text) {
  const auto open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return text.substr(open + 1, close - open - 1);
}

void read_memory(const fs::path& root, machine_facts& m) {
  if (const auto all = storage::all_memory(root)) {
    m.memory_bytes = all->machine_bytes;
    if (all->bytes != all->machine_bytes) m.cgroup_memory_bytes = all->bytes;
  }
  if (const auto left = storage::free_memory(root)) m.available_bytes = left->bytes;
  for (const auto& [key, value] : pairs(slurp(root / "proc/meminfo"), ':')) {
    const uint64_t n = number(value).value_or(0);
    if (key == "SwapTotal") m.swap_bytes = n * 1024;
    if (key == "HugePages_Total") m.huge_pages = n;
    if (key == "HugePages_Free") m.huge_pages_free = n;
    if (key == "Hugepagesize") m.huge_page_bytes = n * 1024;
  }
  const fs::path transparent = root / "sys/kernel/mm/transparent_hugepage";
  m.transparent_huge_pages = chosen_in(slurp(transparent / "enabled"));
  m.shared_huge_pages = chosen_in(slurp(transparent / "shmem_enabled"));
}

// Reads the limits of this process. Format of a line:
// Max locked memory         8388608              8388608              bytes
void read_limits(const fs::path& root, machine_facts& m) {
  std::istringstream in(slurp(root / "proc/self/limits"));
  constexpr size_t soft_column = 26, hard_column = 47;
  for (std::string line; std::getline(in, line);) {
    if (line.size() <= hard_column) continue;
    const auto soft = number(line.substr(soft_column)), hard = number(line.substr(hard_column));
    if (line.rfind("Max locked memory", 0) == 0) m.memlock_bytes = soft.value_or(0);
    if (line.rfind("Max open files", 0) == 0) {
      m.open_files = soft.value_or(0);
      m.open_files_hard = hard;
    }
  }
}

// Reads the smallest limit of processor time from this process's group up to the root of the hierarchy.
void read_cgroup(const fs::path& root, machine_facts& m) {
  const auto processors = [&](const std::string& quota, const std::string& period) {
    const auto q = number(quota), p = number(period);
    if (!q || !p || *q == unlimited || *p == 0) return;
    const double cpus = double(*q) / double(*p);
    m.cgroup_cpus = m.cgroup_cpus > 0 ? std::min(m.cgroup_cpus, cpus) : cpus;
  };
  std::istringstream in(slurp(root / "proc/self/cgroup"));
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    for (fs::path group = line.substr(second + 1);; group = group.parent_path()) {
      const auto at = [&](const char* folder) { return root / "sys/fs/cgroup" / folder / group.relative_path(); };
      if (controllers.empty()) {
        std::istringstream cpu(slurp(at("") / "cpu.max"));
        std::string quota, period;
        cpu >> quota >> period;
        processors(quota, period);
      } else if (controllers.find("cpu") == 0 && controllers.find("cpuset") != 0) {
        processors(slurp(at("cpu") / "cpu.cfs_quota_us"), slurp(at("cpu") / "cpu.cfs_period_us"));
      }
      if (!group.has_relative_path()) break;
    }
  }
}

void read_gpus(const fs::path& root, machine_facts& m) {
  std::istringstream words(slurp(root / "proc/driver/nvidia/version"));
  for (std::string word; words >> word && m.nvidia_driver.empty();)
    if (std::count(word.begin(), word.end(), '.') >= 1 && word.find_first_not_of("0123456789.") == std::string::npos)
      m.nvidia_driver = word;
  std::error_code none;
  for (const auto& gpu : fs::directory_iterator(root / "proc/driver/nvidia/gpus", none))
    for (const auto& [key, value] : pairs(slurp(gpu.path() / "information"), ':'))
      if (key == "Model") m.gpus.push_back(value);
  std::sort(m.gpus.begin(), m.gpus.end());
}

}  // namespace

machine_facts read_machine(const fs::path& root) {
  machine_facts m;
  m.kernel = slurp(root / "proc/sys/kernel/osrelease");
  read_processor(root, m);
  read_memory(root, m);
  read_limits(root, m);
  read_cgroup(root, m);
  read_gpus(root, m);
  if (const auto n = number(slurp(root / "proc/sys/kernel/io_uring_disabled"))) m.io_uring_disabled = int(*n);
  constexpr const char* filtered = "2";  // value of SECCOMP_MODE_FILTER: system calls are filtered
  for (const auto& [key, value] : pairs(slurp(root / "proc/self/status"), ':'))
    if (key == "Seccomp") m.seccomp_filter = value == filtered;
  uint32_t nodes = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", none)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("node", 0) == 0 && number(name.substr(4))) ++nodes;
  }
  m.numa_nodes = std::max(nodes, 1U);
  return m;
}

std::string file_system_of(const fs::path& root, const fs::path& folder) {
  std::string best, type;
  std::istringstream in(slurp(root / "proc/self/mountinfo"));
  for (std::string line; std::getline(in, line);) {
    // Format of a line: 36 35 98:0 /mnt1 /mount/point options optional... - type source super
    std::istringstream words(line);
    std::string word, point, kind;
    for (int i = 0; i < 5 && words >> word; ++i) point = word;
    while (words >> word && word != "-") {
    }
    words >> kind;
    const std::string below = point == "/" ? point : point + "/";
    if ((folder.string() + "/").rfind(below, 0) == 0 && point.size() >= best.size()) {
      best = point;
      type = kind;
    }
  }
  return type;
}

std::vector<std::string> simd_of(const machine_facts& m) {
  const auto all = [&](std::initializer_list<const char*> wanted) {
    return std::all_of(wanted.begin(), wanted.end(), [&](const char* flag) {
      return std::find(m.cpu_flags.begin(), m.cpu_flags.end(), flag) != m.cpu_flags.end();
    });
  };
  std::vector<std::string> out;
  const bool avx2 = all({"avx2", "fma", "f16c", "bmi1", "bmi2"});
  if (avx2 && all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) out.emplace_back("AVX-512");
  if (avx2) out.emplace_back("AVX2");
  if (all({"asimd"})) out.emplace_back("NEON");
  return out;
}

}  // namespace troupe::apps
