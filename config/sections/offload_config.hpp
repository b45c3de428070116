// The part of job_config with the storage of states that need not be in device memory, and with the reading and writing
// of files: `zero_optimization.offload_*`, `zero_optimization.zenflow`, `aio` and the offload keys of `cluster`. Leaves
// to plan/ which states these are and when they move.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::config {

inline constexpr uint32_t aio_queue_depth_max = 4096;       ///< largest aio.queue_depth (storage::queue_depth_max)
inline constexpr uint32_t aio_threads_max = 64;             ///< largest aio.intra_op_parallelism
inline constexpr uint64_t aio_block_alignment = 4096;       ///< number of bytes of which aio.block_size is a multiple
/// Largest aio.block_size in bytes: the limit of one request to the kernel.
inline constexpr uint64_t aio_block_size_max = 1ULL << 30;

/// Largest number of swap windows of a rank (key: buffer_count).
inline constexpr uint64_t offload_buffers_max = 65536;

/// Where states are stored: device memory (none), host memory (cpu) or swap files (nvme).
enum class offload_device : uint8_t { none, cpu, nvme };

struct offload_section {  ///< keys that `offload_param` and `offload_optimizer` share
  offload_device device = offload_device::none;
  std::filesystem::path nvme_path;  ///< folder of the swap files, absolute; given with device nvme
  uint64_t buffer_count = 4;        ///< number of swap buffers (windows) of a rank
  bool buffer_count_given = false;  ///< false: if states are swapped, the plan chooses the number
  bool pin_memory = true;  ///< true: the memory of windows is locked (pinned), as far as the system's limit allows
};

struct offload_param_section : offload_section {  ///< `zero_optimization.offload_param`; device is none below stage 3
  offload_param_section() { buffer_count = 5; }
  uint64_t buffer_size = 100'000'000;   ///< accepted for DeepSpeed's files; has no effect
  /// Parameter elements of a rank that stay in host memory although the device is nvme.
  uint64_t max_in_cpu = 1'000'000'000;
  bool max_in_cpu_given = false;  ///< false: max_in_cpu is not given, and the plan chooses its value
};

/// `zero_optimization.offload_optimizer`; device is none at stage 0.
struct offload_optimizer_section : offload_section {
  /// True: the next sub-group's states are read from the swap file while the current sub-group is updated.
  bool pipeline_read = false;
  /// True: the previous sub-group's states are written to the swap file while the current sub-group is updated.
  bool pipeline_write = false;
  bool pipeline_given = false;      ///< true: pipeline_read or pipeline_write is given; false: the plan chooses both
  bool fast_init = false;           ///< accepted for DeepSpeed's files; has no effect
  double ratio = 1;            ///< stage 3: share of the sub-groups whose states are offloaded, the last sub-groups
  bool super_offload = false;  ///< true: sub-groups are updated as their gradients arrive; for stage 3 and device cpu
  double cpuadam_cores_perc = 0.8;  ///< accepted for DeepSpeed's files; has no effect
  /// Derived from other keys; true: updates may run before the gradient norm and the overflow check are known.
  bool speculates = false;
};

/// Value of zenflow.select_strategy: when ZenFlow selects the columns that are updated in every step.
enum class select_strategy : uint8_t { automatic, step, epoch };

struct zenflow_section {  ///< configuration section `zero_optimization.zenflow`; enabled if the file has the section
  bool enabled = false;
  double topk_ratio = 0.1;  ///< share of a matrix's columns that is updated in every step
  select_strategy select = select_strategy::automatic;
  /// Number of steps or epochs between two selections of columns; nullopt: automatic.
  std::optional<uint64_t> select_interval;
  /// Steps between updates of the columns that are not selected; nullopt: automatic.
  std::optional<uint64_t> update_interval;
  bool overlap_step = false;
  bool offload = false;              ///< true: optimizer states of selected columns are in host memory
  double auto_ratio = 0.99;          ///< accepted for DeepSpeed's files; has no effect
  uint64_t full_warm_up_rounds = 0;  ///< number of first steps that update all columns
  double pt_reserved_cores_perc = 0.5;
};

struct aio_section {                  ///< configuration section `aio`
  uint64_t block_size = 1'048'576;    ///< bytes of one read or write request, a multiple of 4096
  uint32_t queue_depth = 8;           ///< number of requests of one I/O queue that may be in flight
  bool queue_depth_given = false;     ///< false: queue_depth is not given, and storage/ may choose another depth
  uint32_t intra_op_parallelism = 1;  ///< number of threads of an I/O queue that does not use io_uring
  bool intra_op_parallelism_given = false;
  bool single_submit = false;
  bool overlap_events = true;
  bool use_gds = false;  ///< accepted for DeepSpeed's files; has no effect
};

/// Value of `cluster.swap_gradients`: auto, true or false.
enum class swap_choice : uint8_t { automatic, always, never };

/// Value of `cluster.early_updates`: auto, true or false.
enum class early_choice : uint8_t { automatic, always, never };

}  // namespace troupe::config
