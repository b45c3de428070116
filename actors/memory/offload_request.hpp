// A host's request to move states out of memory while nothing runs, and its report: DeepSpeed's `offload_states`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/tiers.hpp"

namespace troupe::actors {

struct offload_request {  ///< states that leave memory, and their destination
  /// The states to move: `optim_states` (moments), `hp_params` (fp32 masters), `lp_params` (parameters as gathers use
  /// them), `lp_grads` (reduced gradients stored apart) and `contiguous_grad_buffer` (buckets); empty: all. If a
  /// parameter is its own master weight, both names of weights select it.
  std::vector<std::string> include{};
  /// cpu: moves the states to host memory; without an accelerator they are there already, so the bytes are counted and
  /// nothing is freed. nvme: moves them to files, and returns the pages to the system.
  plan::tier device = plan::tier::cpu;
  /// An existing folder for the files. Empty: the configuration's `nvme_path`.
  std::filesystem::path nvme_path{};
};

struct offload_report {  ///< report on an offload, summed over all ranks
  uint64_t moved_bytes = 0;
  uint64_t freed_bytes = 0;  ///< part of `moved_bytes` that is no longer in memory
};

}  // namespace troupe::actors
