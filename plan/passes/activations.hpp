// Inputs of recomputed units between their forward and their backward, where they do not stay in device memory: windows
// in a pool of the host. Owns windows and how far ahead reads run; extents are layout/activation_extents.hpp's, the
// copies the compute lane's.
#pragma once

#include <deque>
#include <vector>

#include "plan/layout/activation_extents.hpp"
#include "plan/place/plan_writer.hpp"

namespace troupe::plan {

/// Follows the generator through forward and backward. With tier::cpu every input stays in a window of its own. With
/// tier::nvme there are `activation_slots` windows: inputs leave them for the file, but for those of the last units,
/// which are wanted first; as backward frees a window, the next input is read into it.
class activation_swaps {
 public:
  explicit activation_swaps(plan_writer& writer);

  /// `first` is the forward of the unit's first segment, which puts its input into the window.
  void after_forward(uint32_t first);
  /// A recompute or backward gets the window that it reads.
  void give_window(instruction& x) const;
  /// `last` is the unit's last backward of a micro-batch.
  void after_backward(uint32_t last);

 private:
  [[nodiscard]] bool offloads(uint32_t unit) const { return unit < bytes_.size() && bytes_[unit] > 0; }

  plan_writer& writer_;
  std::vector<uint64_t> bytes_;                        // [unit]; empty where there is nothing to do
  std::vector<uint32_t> units_;                        // with windows, in order of forward
  size_t stay_from_ = 0, slots_ = 0;                   // of units_; windows
  std::vector<uint32_t> window_, written_;             // [unit]
  std::vector<uint32_t> read_;                         // [unit]
  std::deque<std::pair<uint32_t, uint32_t>> leaving_;  // window, write
  size_t held_ = 0, next_ = 0;                         // windows that stay; of units_: reads still to be written
};

}  // namespace troupe::plan
