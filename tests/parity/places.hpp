// Places where the states of a run may lie, as settings, and the comparison of runs that differ in nothing else.
#pragma once

#include <string>
#include <vector>

#include "tests/parity/run_result.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::tests {

inline const std::string zero = "zero_optimization.";

/// A ZeRO stage, with parts so small that a tiny model has several of each.
inline settings stage(int n) {
  return {zero + "stage=" + std::to_string(n), zero + "stage3_param_persistence_threshold=40",
          zero + "reduce_bucket_size=8192", zero + "sub_group_size=4096"};
}

/// Parameters and optimizer in files, of a folder that this suite has to itself: suites run beside each other.
inline settings states_in_files() {
  static const scratch_folder swapped;
  const std::string folder = swapped.path().string();
  return {zero + "offload_optimizer.device=nvme", zero + "offload_optimizer.nvme_path=" + folder,
          zero + "offload_param.device=nvme", zero + "offload_param.nvme_path=" + folder};
}

/// `common` at stage 0, and each of `others`.
inline void check_places(const small_job& job, const settings& common, const std::vector<settings>& others,
                         uint64_t steps) {
  const auto reference = train(job, common + stage(0), steps);
  for (const settings& each : others) BOOST_TEST_CONTEXT(text_of(common + each)) {
      check_same(train(job, common + each, steps), reference);
    }
}

}  // namespace troupe::tests
