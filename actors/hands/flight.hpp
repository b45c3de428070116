// Defines the state of one micro-batch between its forward and its backward: activations, and tensors of a distillation
// teacher. The compute lane's executor decides when it is filled and emptied.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/hands/activation_windows.hpp"
#include "actors/hands/teacher_tensors.hpp"
#include "core/model_table.hpp"
#include "models/segment/parameter_binding.hpp"
#include "models/segment/segment.hpp"

namespace troupe::actors {

/// Stores what backward needs from forward, for one micro-batch of a step; a pipeline has several in flight.
struct flight {
  explicit flight(const core::model_table& table)
      : unit_inputs(table.units.size()),
        exchanged(table.units.size()),
        runs(table.units.size()),
        windows(table.units.size()),
        learned(table.units.size()) {
    for (size_t u = 0; u < runs.size(); ++u) {
      runs[u].resize(table.units[u].segments.size());
      exchanged[u].resize(table.units[u].segments.size());
    }
  }
  std::vector<models::values> unit_inputs;  // [unit]: input of the unit's forward, stored if the unit is recomputed
  // Inputs of segments that tensor-group ranks have exchanged, by unit and segment; stored only if the unit is
  // recomputed.
  std::vector<std::vector<at::Tensor>> exchanged;
  // Runs of segments, with the values that backward reads, by unit and segment; null if the segment has none stored.
  std::vector<std::vector<std::unique_ptr<models::segment_run>>> runs;
  activation_windows windows;
  teacher_tensors learned;  ///< state of the comparison with a teacher, if there is one
};

/// Returns a text that names the first tensor, in the order of computation, that has a number which is not finite,
/// among the tensors of `left` that are still in memory. Waits for the device: call only for a step that has failed.
std::string first_nonfinite(const core::model_table& table, const models::parameter_binding& parameters,
                            std::span<const flight> left);

}  // namespace troupe::actors
