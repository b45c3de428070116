// A host's request to take states out of memory while nothing runs, and its report: DeepSpeed's `offload_states`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/tiers.hpp"

namespace troupe::actors {

struct offload_request {  ///< which states leave memory, and to where
  /// `optim_states` (moments), `hp_params` (fp32 masters), `lp_params` (parameters as gathers use them), `lp_grads`
  /// (reduced gradients kept apart) and `contiguous_grad_buffer` (buckets); empty: all. Where a parameter is its own
  /// master weight, both names of weights mean it.
  std::vector<std::string> include{};
  /// cpu: without an accelerator that is the memory they are in; the bytes are counted there and nothing is freed.
  /// nvme: to files, and the pages go back to the system.
  plan::tier device = plan::tier::cpu;
  /// For files: an existing folder. Empty: the configuration's `nvme_path`.
  std::filesystem::path nvme_path{};
};

struct offload_report {  ///< of all ranks
  uint64_t moved_bytes = 0;
  uint64_t freed_bytes = 0;  ///< of these, those no longer in memory
};

}  // namespace troupe::actors
