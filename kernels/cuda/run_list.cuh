// Runs of elements of many arrays in one launch: a model has hundreds of small parameters, and a launch for each would
// cost more than their arithmetic. Owns how runs are listed in a launch's arguments and how threads find theirs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

/// Most bytes of launch arguments that every driver accepts.
inline constexpr size_t launch_argument_bytes_max = 4096;

/// A list of runs, each divided into parts; the parts of all runs are numbered one after another.
template <class Run>
struct run_list {
  static constexpr size_t most = (launch_argument_bytes_max - sizeof(uint64_t)) / (sizeof(Run) + sizeof(uint64_t));

  Run of[most];
  uint64_t end[most];  ///< end[k]: number of the first part after run k
  uint64_t count = 0;  ///< number of runs

  [[nodiscard]] __host__ __device__ uint64_t parts() const { return count == 0 ? 0 : end[count - 1]; }
  void add(const Run& run, uint64_t run_parts) {
    of[count] = run;
    end[count] = parts() + run_parts;
    ++count;
  }
};

/// Returns the index of part `part` within its run, and sets `k` to the number of that run. The search begins at run
/// `k`: a thread starts with 0 and requests parts in ascending order.
template <class Run>
__device__ uint64_t part_of_run(const run_list<Run>& runs, uint64_t part, uint64_t& k) {
  while (part >= runs.end[k]) ++k;
  return k == 0 ? part : part - runs.end[k - 1];
}

/// Calls `launch(list)` for lists of the runs `run_of(item)`, of `parts_of(item)` parts each, in the order of `items`,
/// until a call fails.
template <class Items, class RunOf, class PartsOf, class F>
core::result<void> in_lists(const Items& items, RunOf run_of, PartsOf parts_of, F launch) {
  run_list<decltype(run_of(*items.begin()))> list;
  for (const auto& item : items) {
    list.add(run_of(item), parts_of(item));
    if (list.count < list.most && &item != &*items.rbegin()) continue;
    if (auto ok = launch(list); !ok) return ok;
    list.count = 0;
  }
  return {};
}

}  // namespace troupe::kernels::cuda
