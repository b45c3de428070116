// State of a micro-batch between forward and backward: its activations. Owns no order; the compute lane's executor
// fills and empties it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/hands/activation_windows.hpp"
#include "actors/hands/lessons.hpp"
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
  std::vector<models::values> unit_inputs;  // inputs of a unit's forward, by unit, if the unit is recomputed
  // Inputs that came from an exchange, by unit and segment, if the unit is recomputed.
  std::vector<std::vector<at::Tensor>> exchanged;
  // Forward runs, which backward uses, by unit and segment.
  std::vector<std::vector<std::unique_ptr<models::segment_run>>> runs;
  activation_windows windows;
  lessons learned;  ///< state of the comparison with a teacher, if there is one
};

/// Returns as text where a number that is not finite appeared first, among the tensors still in memory. Reads tensors,
/// and therefore waits for the device: call only for a step that has failed.
std::string first_nonfinite(const core::model_table& table, const models::parameter_binding& parameters,
                            std::span<const flight> left);

}  // namespace troupe::actors
