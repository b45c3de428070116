// Reads the kernel's facts about this machine from /proc and /sys below a root folder, so that tests can present
// another machine. Leaves attempts to apps/machine/probes.hpp, and judgements to apps/machine/findings.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::apps {

/// Value of a limit that the kernel spells "unlimited" or "max".
inline constexpr uint64_t unlimited = UINT64_MAX;

struct machine_facts {
  std::string kernel;                  ///< release of the Linux kernel, as in "6.1.0-18-amd64"
  std::string processor;               ///< model name of the processor
  uint32_t cores = 0;                  ///< number of processor cores in /proc/cpuinfo
  std::vector<std::string> cpu_flags;  ///< flags of the processor as /proc/cpuinfo spells them
  uint64_t memory_bytes = 0, swap_bytes = 0;
  /// Bytes of memory and free swap space that this process can still use; `train` refuses jobs by the same number
  uint64_t available_bytes = 0;
  std::string transparent_huge_pages;  ///< always, madvise, never; empty: the kernel has none
  std::string shared_huge_pages;       ///< setting for memory that processes share: advise, never ...; empty: unknown
  uint64_t huge_pages = 0, huge_pages_free = 0, huge_page_bytes = 0;
  /// Soft limits of this process: bytes of locked memory, number of open files.
  uint64_t memlock_bytes = 0, open_files = 0;
  std::optional<uint64_t> open_files_hard;
  std::optional<int> io_uring_disabled;  ///< value of kernel.io_uring_disabled; Linux has it from 6.6 on
  bool seccomp_filter = false;           ///< true if this process may not make every system call, as in a container
  uint32_t numa_nodes = 1;
  uint64_t cgroup_memory_bytes = unlimited;
  double cgroup_cpus = 0;     ///< limit of this process's control groups for processor time, in cores; 0: no limit
  std::string nvidia_driver;  ///< version of NVIDIA's driver; empty: none is loaded
  std::vector<std::string> gpus;
};

/// Reads the facts of the machine below `root` ("/" for this one). An unreadable fact keeps its default.
machine_facts read_machine(const std::filesystem::path& root);

/// Returns the type of the file system of `folder` (absolute), from root/proc/self/mountinfo; empty if unknown.
std::string file_system_of(const std::filesystem::path& root, const std::filesystem::path& folder);

/// Returns the SIMD instruction sets of this processor that the kernels have code for, best first ("AVX-512", "AVX2");
/// empty: scalar.
std::vector<std::string> simd_of(const machine_facts& m);

}  // namespace troupe::apps
