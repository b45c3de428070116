// What the kernel says about this machine: facts read from /proc and /sys below a root folder, so that tests can show
// it another machine. Nothing is tried here (apps/machine/probes.hpp) and nothing judged (apps/machine/findings.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::apps {

/// A limit that the kernel spells "unlimited" or "max".
inline constexpr uint64_t unlimited = UINT64_MAX;

struct machine_facts {
  std::string kernel;                  ///< release, "6.1.0-18-amd64"
  std::string processor;               ///< model name
  uint32_t cores = 0;                  ///< that the kernel knows
  std::vector<std::string> cpu_flags;  ///< as /proc/cpuinfo spells them
  uint64_t memory_bytes = 0, swap_bytes = 0;
  uint64_t available_bytes = 0;        ///< to this process, with free swap, as `train` judges
  std::string transparent_huge_pages;  ///< always, madvise, never; empty: the kernel has none
  std::string shared_huge_pages;       ///< the same of memory that processes share: advise, never ...
  uint64_t huge_pages = 0, huge_pages_free = 0, huge_page_bytes = 0;
  uint64_t memlock_bytes = 0, open_files = 0;  ///< soft limits of this process
  std::optional<uint64_t> open_files_hard;
  std::optional<int> io_uring_disabled;  ///< kernel.io_uring_disabled, from Linux 6.6 on
  bool seccomp_filter = false;           ///< this process may not make every system call, as in a container
  uint32_t numa_nodes = 1;
  uint64_t cgroup_memory_bytes = unlimited;
  double cgroup_cpus = 0;     ///< cores' worth of time; 0: no limit
  std::string nvidia_driver;  ///< version; empty: not loaded
  std::vector<std::string> gpus;
};

/// Facts of the machine below `root` ("/" for this one). What cannot be read stays at its default.
machine_facts read_machine(const std::filesystem::path& root);

/// Type of the file system that `folder` (absolute) is on, by root/proc/self/mountinfo; empty when unknown.
std::string file_system_of(const std::filesystem::path& root, const std::filesystem::path& folder);

/// SIMD of this processor that the kernels have code for, best first ("AVX-512", "AVX2"); empty: scalar.
std::vector<std::string> simd_of(const machine_facts& m);

}  // namespace troupe::apps
