// Uploads weights that the host updates and the device computes with: cuts a piece into runs, and writes each run's new
// weights into a pinned window, which a stream copies to the device while the host computes the next run. Owns how a
// piece is cut into runs.
#pragma once

#include <algorithm>
#include <utility>

#include "actors/hands/pinned_ring.hpp"
#include "core/dtype.hpp"
#include "kernels/optimizer/optimizer_piece.hpp"

namespace troupe::actors {

class weight_uploads {
 public:
  static constexpr uint64_t window_bytes = uint64_t{4} << 20;

  explicit weight_uploads(device::device_id device) : windows_(device, 2) {}

  /// Allocates the windows; call before the first update. Errors: no memory.
  core::result<void> begin() {
    if (std::exchange(begun_, true)) return {};
    for (int k = 0; k < 2; ++k)
      if (auto ok = windows_.next(window_bytes); !ok) return core::fail(ok.error().in("windows for new weights"));
    return {};
  }

  /// Calls update(run, first) for the runs of `piece` in order. `run.copy`, to which `update` writes the new weights,
  /// is a pinned window; when `update` returns, its copy to `piece.copy` on the device is enqueued. `first` is the
  /// index of the run's first element in the piece.
  template <class State, class F>
  void update(const kernels::optimizer_piece<State>& piece, F update) {
    const uint64_t copy_bytes = core::size_of(piece.copy_dtype);
    const uint64_t most = window_bytes / copy_bytes;
    for (uint64_t first = 0; first < piece.count; first += most) {
      auto run = kernels::part_of(piece, first, std::min(piece.count - first, most));
      run.copy = *windows_.next(window_bytes);  // `begin` has allocated the window, so `next` cannot fail
      update(run, first);
      windows_.copy(piece.copy + first * copy_bytes, run.count * copy_bytes);
    }
  }

 private:
  pinned_ring windows_;
  bool begun_ = false;
};

}  // namespace troupe::actors
