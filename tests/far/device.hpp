// Simulates a CUDA device on the CPU: it is registered as a device of kind cuda, its kernels are the CPU's, and an
// access to its memory by host code ends the program with a report (tests/far/arena.hpp). Its streams are prompt or
// late (tests/far/streams.hpp). Owns its tables.
#pragma once

#include <cstdint>

#include "models/cuda/use.hpp"

namespace troupe::far {

/// Registers the simulated device as the only device.
void provide();

/// If `refused` is true, makes Torch's later allocations of device memory fail; otherwise makes them succeed again.
void refuse_memory(bool refused);
/// Makes Torch's later allocations of device memory throw another error than that of exhausted memory, or succeed
/// again.
void fail_torch(bool fails);

struct asked {                     ///< what sessions have set for Torch as a whole
  models::cuda_settings settings;  ///< the last settings
  uint64_t kernels = 0;            ///< kernels called before these settings
  uint64_t restored = 0;           ///< times that the settings of before were restored
  uint64_t emptied = 0;            ///< times that Torch's cache was emptied
  uint32_t index = 0;
  uint64_t bytes = 0;  ///< limit of Torch's memory on the device, in bytes
};
const asked& last_asked();

struct counts {            ///< numbers of operations since `provide`
  uint64_t kernels = 0;    ///< number of calls of kernels in the table and of products
  uint64_t torch = 0;      ///< number of Torch's own operations
  uint64_t copies = 0;     ///< number of copies on streams
  uint64_t uploads = 0;    ///< number of Torch's copies from the host; on a real device the host waits for each
  uint64_t downloads = 0;  ///< number of Torch's copies to the host; on a real device the host waits for each
  uint64_t items = 0;      ///< number of single values that the host has read from the device
  /// Number of the host's waits for a stream or an event, including waits for work that was already done.
  uint64_t waits = 0;
  /// Number of the host's waits that found unfinished work, on threads that have called a product.
  uint64_t compute_waits = 0;
  uint64_t bytes_up = 0;  ///< number of bytes copied on streams from the host's memory to the device's
  uint64_t bytes_down = 0;
  uint64_t unpinned = 0;  ///< number of copies on streams from or to host memory that is not pinned
};
counts counted();

}  // namespace troupe::far
