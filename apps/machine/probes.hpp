// Tries features whose presence no file of the kernel shows: a ring of io_uring, locked memory, a direct write in a
// folder, the CUDA driver. A try leaves no files and no locked memory behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::apps {

/// Result of trying one feature of the system: success, or the system's error.
struct attempt {
  bool good = false;
  std::string why;  ///< the system's reason, if the try failed
};

/// Sets up a ring of io_uring and closes it.
attempt try_io_uring();

struct queue_facts {
  std::string engine;                ///< `io_uring` or `threads`: the engine for reads and writes of files
  std::vector<std::string> remarks;  ///< requests that the system refused, one sentence each
};

/// Opens the queue that a run would use, with registered memory, and closes it.
queue_facts try_queue();

/// Locks `bytes` of memory and frees them.
attempt try_lock(uint64_t bytes);

struct folder_facts {
  std::filesystem::path path;  ///< absolute path of the tried folder, links resolved
  std::string file_system;     ///< type of the folder's file system: "ext4", "tmpfs"; empty: unknown
  uint64_t free_bytes = 0;     ///< bytes of the file system that are free for this user
  attempt write;               ///< result of writing one block to a file of the folder
  attempt direct;              ///< result of writing the block past the page cache (O_DIRECT)
  /// Absolute path, set if neither the folder nor its parent exists; nothing was tried then.
  std::filesystem::path asked_for{};
};

/// Tries the folder `path`, or its parent, in which it would be created.
folder_facts try_folder(const std::filesystem::path& path);

struct cuda_facts {
  bool loaded = false;  ///< true: libcuda.so.1 was found
  attempt start;        ///< result of cuInit, the start of the CUDA driver
  std::string version;  ///< CUDA version of the driver, such as "12.4"
  std::vector<std::string> devices;
};

/// Queries the CUDA driver, if there is one.
cuda_facts try_cuda();

struct cuda_library_facts {
  std::string at;  ///< path of libtroupe_cuda.so; empty: not found
  attempt open;    ///< result of loading the library, which also loads LibTorch for CUDA and NVIDIA's libraries
};

/// Returns the folder whose program opens libtroupe_cuda.so: that of troupe-train, or this program's own without one.
std::filesystem::path cuda_opener_folder();

/// Looks for libtroupe_cuda.so next to a program in `folder`, and opens it.
cuda_library_facts try_cuda_library(const std::filesystem::path& folder);

}  // namespace troupe::apps
