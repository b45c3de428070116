// Lists settings that determine where the states of a run are stored, and compares runs that differ in nothing else.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/crash/wanted_cases.hpp"
#include "tests/parity/run_result.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::tests {

inline const std::string zero = "zero_optimization.";

/// Returns the settings of a ZeRO stage, with size limits so small that a tiny model has several buckets and
/// sub-groups.
inline settings stage(int n) {
  return {fmt::format("{}stage={}", zero, n), zero + "stage3_param_persistence_threshold=40",
          zero + "reduce_bucket_size=8192", zero + "sub_group_size=4096"};
}

/// Returns settings that keep parameters and optimizer states in swap files. Each process has its own folder, because
/// test suites run at the same time.
inline settings states_in_files() {
  static const scratch_folder swapped;
  const std::string folder = swapped.path().string();
  return {zero + "offload_optimizer.device=nvme", zero + "offload_optimizer.nvme_path=" + folder,
          zero + "offload_param.device=nvme", zero + "offload_param.nvme_path=" + folder};
}

/// Returns settings that cover all tiers and stages, recomputed units, updates before the gradient norm is known, and
/// schedules that split backward; each rebuilds compressed weights, masks and scores at other times.
inline std::vector<settings> compression_places() {
  const settings files = states_in_files(), again = {"activation_checkpointing.enabled=true"};
  return {stage(1),
          stage(2) + again,
          stage(3),
          stage(3) + again + settings{zero + "stage3_prefetch_bucket_size=0"},
          stage(3) + files,
          stage(3) + settings{"cluster.early_updates=true"},
          stage(3) + settings{zero + "offload_optimizer.device=cpu", zero + "offload_param.device=cpu"},
          stage(3) + again + settings{"cluster.offload_activations=cpu"},
          stage(1) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
          stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_v", "pipeline.chunks=2"}};
}

/// Returns every second one of `all` from number `first` on, for two models that share the places of a technique; `make
/// soak` tests both models at all of them.
inline std::vector<settings> half_of(const std::vector<settings>& all, size_t first) {
  if (wanted_cases("TROUPE_CASES", 0) > 0) return all;
  std::vector<settings> out;
  for (size_t i = first; i < all.size(); i += 2) out.push_back(all[i]);
  return out;
}

/// Checks that each run with `common` and one of `others` equals the run with `common` at stage 0, bit for bit.
inline void check_places(const small_job& job, const settings& common, const std::vector<settings>& others,
                         uint64_t steps) {
  const auto reference = train(job, common + stage(0), steps);
  for (const settings& each : others) BOOST_TEST_CONTEXT(text_of(common + each)) {
      check_same(train(job, common + each, steps), reference);
    }
}

}  // namespace troupe::tests
