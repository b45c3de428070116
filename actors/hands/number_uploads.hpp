// Copies the token ids, positions and labels of a step's micro-batches (models::batch_numbers) to a device that cannot
// read the host's memory: one copy per micro-batch, before the micro-batch's first instruction, through a ring of
// pinned windows. Owns the copies on the device until the next step.
#pragma once

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "actors/hands/pinned_ring.hpp"
#include "models/segment/batch_numbers.hpp"
#include "models/segment/torch_device.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::actors {

class number_uploads {
 public:
  /// Largest number of windows. If a step has more micro-batches, the host waits before it fills a window until the
  /// window's previous copy is done.
  static constexpr size_t windows_max = 8;

  explicit number_uploads(device::device_id device) : device_(device), windows_(device, 1) {}

  /// Begins a step of `micros` micro-batches.
  void begin(size_t micros) {
    windows_.widen(std::min(micros, windows_max));
    there_.clear();
    there_.resize(micros);
  }

  /// Returns the token ids, positions and labels of micro-batch `micro` in the device's memory, valid until the next
  /// step; null if the device is the CPU. Errors: no memory.
  core::result<const models::batch_numbers*> of(size_t micro, const models::micro_batch& batch) {
    if (device_.kind == device::device_kind::cpu) return none_;
    models::batch_numbers& out = there_[micro];
    if (out.tokens.defined()) return &out;
    const models::packed_numbers numbers(batch);
    const auto window = windows_.next(numbers.bytes());
    if (!window) return core::fail(window.error().in("a window for a batch's numbers"));
    numbers.write(*window);
    const at::Tensor all =
        at::empty({static_cast<int64_t>(numbers.bytes())}, at::dtype(at::kByte).device(models::torch_device(device_)));
    windows_.copy(models::bytes_in(all), numbers.bytes());
    out = numbers.over(all);
    return &out;
  }

 private:
  static constexpr const models::batch_numbers* none_ = nullptr;
  device::device_id device_;
  pinned_ring windows_;
  std::vector<models::batch_numbers> there_;  // token ids, positions, labels on the device, by micro-batch
};

}  // namespace troupe::actors
