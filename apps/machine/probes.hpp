// What cannot be read but must be tried: a ring of io_uring, locked memory, a direct write in a folder, the CUDA
// driver. Each try leaves nothing behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::apps {

/// The outcome of a try: errno 0 when it went well.
struct attempt {
  bool good = false;
  std::string why;  ///< the system's words when it did not
};

/// Sets up a ring of io_uring and gives it back.
attempt try_io_uring();

struct queue_facts {
  std::string engine;                ///< `io_uring` or `threads`: what reads and writes of files go through here
  std::vector<std::string> remarks;  ///< what was wanted and refused, a sentence each
};

/// Opens the queue that a run would, with registered memory, and closes it.
queue_facts try_queue();

/// Locks `bytes` of memory and gives them back.
attempt try_lock(uint64_t bytes);

struct folder_facts {
  std::filesystem::path path;  ///< absolute, links resolved
  std::string file_system;     ///< "ext4", "tmpfs"; empty: unknown
  uint64_t free_bytes = 0;     ///< for this user
  attempt write;               ///< a file of one block
  attempt direct;              ///< the same block past the page cache (O_DIRECT)
  /// Absolute, where neither it nor the folder above it is there: nothing was tried then.
  std::filesystem::path asked_for{};
};

/// Tries the folder `path`, or the one above it, in which it would be made.
folder_facts try_folder(const std::filesystem::path& path);

struct cuda_facts {
  bool loaded = false;  ///< libcuda.so.1 is there
  attempt start;        ///< cuInit
  std::string version;  ///< of CUDA that the driver speaks, "12.4"
  std::vector<std::string> devices;
};

/// Asks the CUDA driver, if there is one.
cuda_facts try_cuda();

struct cuda_library_facts {
  std::string at;  ///< libtroupe_cuda.so; empty: not found
  attempt open;    ///< with LibTorch for CUDA and NVIDIA's libraries; takes a second where they are there
};

/// Looks for libtroupe_cuda.so beside a program in `folder` and opens it.
cuda_library_facts try_cuda_library(const std::filesystem::path& folder);

}  // namespace troupe::apps
