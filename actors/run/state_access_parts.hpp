// The objects of a session by which state_access reads and changes states by name. Only sources of actors/ include this
// file.
#pragma once

#include <functional>
#include <optional>

#include "actors/memory/whole_states.hpp"
#include "actors/run/compression_state.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/step/optimizer_groups.hpp"

namespace troupe::actors {

/// The objects that access to states by name needs; valid until the session's next call.
struct state_access_parts {
  const core::model_table& table;
  const job::optimizer_groups& groups;
  whole_states states;
  /// factor that converts reduced gradients to means over the global batch; none before the first step
  std::optional<double> gradient_factor;
  std::function<compression_state()> compression;
  /// Returns an error while states are offloaded or the run is over.
  std::function<core::result<void>()> before_reading;
  /// Call before states change: returns an error like before_reading, and makes a waiting save copy the present states
  /// first.
  std::function<core::result<void>()> before_changing;
};

/// Selects one kind of state of one parameter: of the whole parameter, or of the elements that one rank holds.
struct state_place {
  uint32_t parameter = 0;
  plan::state_part part = plan::state_part::master;
  plan::slice range;
  std::optional<uint32_t> rank{};  ///< rank whose memory is accessed; none: all ranks
};

}  // namespace troupe::actors
