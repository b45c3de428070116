// Lists of element runs of many arrays for one launch: a model has hundreds of small parameters, and a launch for each
// would cost more than its arithmetic. Owns how runs are stored in a launch's arguments and how threads find their
// elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

/// Number of bytes of launch arguments that every CUDA driver accepts.
inline constexpr size_t launch_argument_bytes_max = 4096;

/// A list of runs, each divided into parts; the parts of all runs are numbered one after another.
template <class Run>
struct run_list {
  static constexpr size_t most = (launch_argument_bytes_max - sizeof(uint64_t)) / (sizeof(Run) + sizeof(uint64_t));

  Run of[most];
  uint64_t end[most];  ///< end[k]: number of parts of the runs 0 to k together
  uint64_t count = 0;  ///< number of runs

  [[nodiscard]] __host__ __device__ uint64_t parts() const { return count == 0 ? 0 : end[count - 1]; }
  void add(const Run& run, uint64_t run_parts) {
    of[count] = run;
    end[count] = parts() + run_parts;
    ++count;
  }
};

/// Returns the index within its run of part number `part`, counted over all runs, and sets `k` to the number of that
/// run. The search begins at run `k`: a thread passes 0 first, and then requests parts in ascending order.
template <class Run>
__device__ uint64_t part_of_run(const run_list<Run>& runs, uint64_t part, uint64_t& k) {
  while (part >= runs.end[k]) ++k;
  return k == 0 ? part : part - runs.end[k - 1];
}

/// Converts each of `items` to a run, `run_of(item)`, of `parts_of(item)` parts, fills lists with as many runs as
/// launch arguments can hold, in order, and calls `launch(list)` for each list. Stops at the first call that fails, and
/// returns its error.
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
