// The request of the host program to move states (weights, moments, gradients) out of memory between steps, and
// the report on it, as in DeepSpeed's `offload_states`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/tiers.hpp"

namespace troupe::actors {

struct offload_request {  ///< states that leave memory, and their destination
  /// Names of the states to move: `optim_states` (moments), `hp_params` (fp32 master weights), `lp_params` (parameters
  /// as the forward pass uses them), `lp_grads` (reduced gradients that have memory of their own) and
  /// `contiguous_grad_buffer` (gradient buckets); empty: all. If a parameter is its own master weight, `hp_params` and
  /// `lp_params` both select it.
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
