#include "apps/machine/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/number.hpp"
#include "core/system/driver_release.hpp"
#include "models/cuda/library_file.hpp"

namespace troupe::apps {
namespace {

constexpr auto fine = condition::fine;
constexpr auto poor = condition::poor;
constexpr auto missing = condition::missing;

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

std::string quoted(const std::string& path) {
  std::string out = "'";
  for (const char c : path) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

finding programs(const tried_facts& t) {
  if (!t.train_program_there) return {"programs", missing, t.train_program, "nothing can be trained", t.train_mend};
  if (!t.torch_library.empty() && !t.torch_library_there)
    return {"programs", missing, t.torch_library + " is not there", "troupe-train does not start",
            "make install PREFIX=... (in Troupe's source tree)"};
  return {"programs", fine, t.train_program};
}

finding cores(const machine_facts& m, const tried_facts& t) {
  const uint32_t n = t.usable_cores > 0 ? t.usable_cores : m.cores;
  finding f{"cores", fine, fmt::format("{}{}", n, n < m.cores ? fmt::format(" of {}", m.cores) : "")};
  if (!m.processor.empty()) f.found += ", " + m.processor;
  if (m.cgroup_cpus > 0 && m.cgroup_cpus < double(n)) {
    char limit[64];
    std::snprintf(limit, sizeof limit, "; the container may use %.3g of them", m.cgroup_cpus);
    f.found += limit;
    f.is = poor;
    f.costs = "more ranks than that wait for each other's turn";
    f.command = fmt::format("docker run --cpus={} ... (or cpu.max of the control group)", n);
  }
  return f;
}

finding simd(const machine_facts& m, const tried_facts& t) {
  auto known = simd_of(m);
  if (!known.empty()) {
    std::string used = known.front() + " is used";
    if (!t.aten_limit.empty()) used += " by Troupe's kernels, ATEN_CPU_CAPABILITY=" + t.aten_limit + " by LibTorch";
    known.erase(known.begin());
    return {"SIMD", fine, used + (known.empty() ? "" : "; there is " + joined(known) + " as well")};
  }
  return {"SIMD", poor, "none that the kernels use (AVX2, AVX-512 or NEON)",
          "optimizers, norms and casts run one number at a time, 4 to 8 times slower", ""};
}

finding memory(const machine_facts& m) {
  const uint64_t limit = std::min(m.memory_bytes, m.cgroup_memory_bytes);
  finding f{"memory", fine, bytes_text(limit)};
  if (m.cgroup_memory_bytes < m.memory_bytes)
    f.found += " (the container's limit; the machine has " + bytes_text(m.memory_bytes) + ")";
  f.found += ", " + bytes_text(std::min(m.available_bytes, limit)) + " available";
  if (std::min(m.available_bytes, limit) < memory_wanted_bytes) {
    f.is = poor;
    f.costs = "only small models fit; troupe plan says which";
    f.command = "ps -eo pid,rss,comm --sort=-rss | head (who has it)";
  }
  return f;
}

finding swap(const machine_facts& m) {
  // A machine without swap space is fine: a run that does not fit is then refused, which is better than a very slow
  // run.
  return {"swap", fine, m.swap_bytes == 0 ? "none" : bytes_text(m.swap_bytes) + " (a step that swaps is very slow)"};
}

finding huge_pages(const machine_facts& m) {
  const std::string reserved = m.huge_pages > 0
                                   ? fmt::format("; {} of {} reserved ones free ({} each)", m.huge_pages_free,
                                                 m.huge_pages, bytes_text(m.huge_page_bytes))
                                   : "";
  if (m.transparent_huge_pages == "always" || m.transparent_huge_pages == "madvise")
    return {"huge pages", fine, "transparent: " + m.transparent_huge_pages + reserved};
  return {
      "huge pages", poor,
      "transparent: " + (m.transparent_huge_pages.empty() ? "not in this kernel" : m.transparent_huge_pages) + reserved,
      "pools are on 4 KiB pages: direct I/O at about half its speed, slower first touch",
      m.transparent_huge_pages.empty() ? "" : "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"};
}

/// Judges the huge pages of the memory pools that the processes of a job share (cluster.processes). The kernel has a
/// separate setting for shared memory.
finding shared_pages(const machine_facts& m) {
  if (m.shared_huge_pages != "never" && m.shared_huge_pages != "deny")
    return {"shared pages", fine,
            m.shared_huge_pages.empty() ? "as the kernel has them" : "transparent: " + m.shared_huge_pages};
  return {"shared pages", poor,
          "transparent: " + m.shared_huge_pages + ", so memory shared between processes has 4 KiB pages",
          "with cluster.processes, copies into pools take about 1.3 times as long, their first touch 5 times",
          "echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled"};
}

constexpr const char* raise_memlock =
    "echo \"$USER - memlock unlimited\" | sudo tee /etc/security/limits.d/troupe.conf (then log in again; docker run "
    "--ulimit memlock=-1; a service: LimitMEMLOCK=infinity)";

finding locked_memory(const machine_facts& m, const tried_facts& t) {
  if (m.memlock_bytes >= memlock_wanted_bytes) return {"memlock", fine, bytes_text(m.memlock_bytes)};
  // A user with CAP_IPC_LOCK is not subject to the limit.
  if (t.lock.good) return {"memlock", fine, bytes_text(m.memlock_bytes) + ", which does not apply to this user"};
  return {
      "memlock", poor, bytes_text(m.memlock_bytes),
      "pools can be paged out and buffers of io_uring cannot be registered: each direct read or write pins its pages "
      "anew",
      raise_memlock};
}

finding open_files(const machine_facts& m) {
  if (m.open_files >= open_files_wanted) return {"open files", fine, fmt::to_string(m.open_files)};
  const bool may = m.open_files_hard.value_or(0) >= open_files_wanted;
  return {"open files", poor, fmt::to_string(m.open_files),
          "many shard files or ranks in one process run out of descriptors",
          may ? fmt::format("ulimit -n {}", open_files_wanted)
              : "echo \"$USER - nofile 65536\" | sudo tee /etc/security/limits.d/troupe.conf (then log in again)"};
}

finding ring(const machine_facts& m, const tried_facts& t) {
  if (t.io_uring.good) return {"io_uring", fine, "a ring can be set up (Linux " + m.kernel + ")"};
  const std::string costs =
      "offload to disk works through threads instead, with the same bytes: more processor time for each read and write";
  if (m.io_uring_disabled.value_or(0) > 0)
    return {"io_uring", poor, fmt::format("kernel.io_uring_disabled = {} ({})", *m.io_uring_disabled, t.io_uring.why),
            costs, "sudo sysctl kernel.io_uring_disabled=0"};
  if (m.seccomp_filter)
    return {"io_uring", poor, "refused by a seccomp filter, as that of container engines does (" + t.io_uring.why + ")",
            costs,
            "docker run --security-opt seccomp=FILE ... (a profile that allows io_uring_setup, io_uring_enter and "
            "io_uring_register, or unconfined; docs/install.md)"};
  return {"io_uring", poor, t.io_uring.why, costs, "a kernel from 5.1 on, built with io_uring"};
}

finding queue(const tried_facts& t) {
  const auto& remarks = t.queue.remarks;
  std::string why;
  for (const auto& r : remarks) why += (why.empty() ? "" : "; ") + r;
  if (t.queue.engine == "io_uring" && remarks.empty())
    return {"queue", fine, "io_uring: files are read and written through rings, with registered memory"};
  if (t.queue.engine == "io_uring")
    return {"queue", poor, why, "some more processor time for each read and write", raise_memlock};
  return {"queue", poor, (t.queue.engine.empty() ? "none" : t.queue.engine) + ": " + why,
          "a thread for each read and write in flight",
          "mend io_uring (above); troupe io bench FOLDER measures either"};
}

void folder(const folder_facts& f, std::vector<finding>& out) {
  if (!f.asked_for.empty()) {
    out.push_back({"folder", missing, "'" + f.asked_for.string() + "' does not exist, nor the folder above it",
                   "checkpoints and reports cannot be written", "mkdir -p " + quoted(f.asked_for.string())});
    return;
  }
  const std::string where = f.path.string() + (f.file_system.empty() ? "" : " (" + f.file_system + ")");
  if (!f.write.good) {
    out.push_back({"folder", missing, where + ": " + f.write.why, "checkpoints and reports cannot be written",
                   "name a folder that you may write to: troupe doctor FOLDER"});
    return;
  }
  finding space{"folder", fine, where + ", " + bytes_text(f.free_bytes) + " free"};
  if (f.free_bytes < free_wanted_bytes) {
    space.is = poor;
    space.costs = "a checkpoint of 100 million parameters takes 1.2 GB and may not fit";
    space.command = "du -xh " + quoted(f.path.string()) + " | sort -h | tail (what takes it)";
  }
  out.push_back(space);
  if (f.file_system == "tmpfs" || f.file_system == "ramfs")
    out.push_back({"O_DIRECT", poor, where + " is in memory, not on a disk",
                   "what is offloaded to this folder stays in memory",
                   "name a folder on ext4 or xfs on a local disk: troupe doctor FOLDER"});
  else if (f.direct.good)
    out.push_back({"O_DIRECT", fine, "works in " + where});
  else
    out.push_back({"O_DIRECT", poor, "refused in " + where + ": " + f.direct.why,
                   "offload to this folder goes through the page cache: a second copy of every byte, and memory",
                   "name a folder on ext4 or xfs on a local disk: troupe doctor FOLDER"});
}

/// Major version of CUDA that LibTorch's libraries are built for.
constexpr int cuda_wanted = 13;
constexpr std::string_view driver_wanted = core::driver_release_for(cuda_wanted);

bool is_too_old(std::string_view cuda) {
  return !cuda.empty() && core::take_number<int>(cuda).value_or(0) < cuda_wanted;
}

// Judges the GPU. Training runs on the processor unless a file has `device: cuda`, so no finding is `missing`.
finding gpu(const machine_facts& m, const tried_facts& t) {
  const auto& models = t.cuda.devices.empty() ? m.gpus : t.cuda.devices;
  const std::string names = joined(models);
  if (m.nvidia_driver.empty() && !t.cuda.loaded && m.gpus.empty())
    return {"GPU", fine, "none (no NVIDIA driver is loaded); training runs on the processor"};
  const std::string costs = "device: cuda is refused, training runs on the processor";
  if (m.nvidia_driver.empty() && !t.cuda.start.good)
    return {"GPU", poor, "CUDA's library is installed, the kernel's driver is not (" + t.cuda.start.why + ")", costs,
            "sudo apt-get install nvidia-driver (Debian's non-free; release " + std::string(driver_wanted) +
                " or later), then restart"};
  if (!t.cuda.start.good)
    return {"GPU", poor, names + ", driver " + m.nvidia_driver + ": " + t.cuda.start.why, costs,
            t.cuda.loaded ? "sudo modprobe nvidia-uvm"
                          : "docker run --gpus all ... (in a container; else sudo apt-get "
                            "install libcuda1)"};
  const std::string found = (names.empty() ? "no device" : names) +
                            (m.nvidia_driver.empty() ? "" : ", driver " + m.nvidia_driver) +
                            (t.cuda.version.empty() ? "" : ", CUDA " + t.cuda.version);
  if (is_too_old(t.cuda.version))
    return {"GPU", poor, found, costs,
            fmt::format("a driver for CUDA {}.0, release {} or later", cuda_wanted, driver_wanted)};
  return {"GPU", fine, found};
}

finding cuda_library(const tried_facts& t) {
  const auto& library = t.cuda_library;
  const bool has_gpu = !t.cuda.devices.empty();
  const std::string costs = has_gpu ? "the GPU stays idle: training runs on the processor" : "";
  if (library.at.empty())
    return {"CUDA library", has_gpu ? poor : fine, "no libtroupe_cuda.so: device: cuda is refused", costs,
            has_gpu ? "sudo apt-get install ./troupe-cuda_*.deb (in a source tree: make build DEVICE=cuda)" : ""};
  if (library.open.good) return {"CUDA library", fine, library.at + " opens, so device: cuda only needs a GPU"};
  const std::string lacking = models::lacking_library(library.open.why);
  return {"CUDA library", poor, library.at + (lacking.empty() ? ": " + library.open.why : " lacks " + lacking),
          "device: cuda is refused", lacking.empty() ? "make build DEVICE=cuda" : models::nvidia_installer(library.at)};
}

finding numa(const machine_facts& m) {
  if (m.numa_nodes <= 1) return {"NUMA", fine, "one node"};
  return {"NUMA", poor, fmt::format("{} nodes", m.numa_nodes),
          "a process that spans nodes reads half its memory from the other one",
          "numactl --cpunodebind=0 --membind=0 troupe train ... (one process a node)"};
}

}  // namespace

std::vector<finding> examine(const machine_facts& m, const tried_facts& t) {
  std::vector<finding> out = {programs(t),     cores(m, t),         simd(m, t),    memory(m),  swap(m), huge_pages(m),
                              shared_pages(m), locked_memory(m, t), open_files(m), ring(m, t), queue(t)};
  folder(t.folder, out);
  out.push_back(gpu(m, t));
  out.push_back(cuda_library(t));
  out.push_back(numa(m));
  return out;
}

std::string bytes_text(uint64_t bytes) {
  if (bytes == unlimited) return "unlimited";
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double n = double(bytes);
  size_t unit = 0;
  while (n >= 999.5 && unit + 1 < std::size(units)) {
    n /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, n < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", n, units[unit]);
  return text;
}

}  // namespace troupe::apps
