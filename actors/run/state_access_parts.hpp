// The part of a session that its state_access uses. Only sources of this folder include it.
#pragma once

#include <functional>
#include <optional>

#include "actors/memory/whole_states.hpp"
#include "actors/run/compression_state.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/optimizer_groups.hpp"

namespace troupe::actors {

/// The objects that state_access reads and writes; valid until the session's next call.
struct state_access_parts {
  const core::model_table& table;
  const job::optimizer_groups& groups;
  whole_states states;
  /// factor that converts reduced gradients to gradients of the mean over the global batch; none before the first step
  std::optional<double> gradient_factor;
  std::function<compression_state()> compression;
  /// Returns an error while states are offloaded or the run is over.
  std::function<core::result<void>()> before_reading;
  /// Checks as before_reading does, and lets a save take its copies first.
  std::function<core::result<void>()> before_changing;
};

/// Elements of one part of one parameter: of the whole parameter, or of the part that a rank has in memory.
struct state_place {
  uint32_t parameter = 0;
  plan::state_part part = plan::state_part::master;
  plan::slice range;
  std::optional<uint32_t> rank{};  ///< rank whose memory is accessed; none: all ranks
};

}  // namespace troupe::actors
