// Executes the instructions of a lane. The lane actor decides when; an executor does the work and does not depend on
// actors. Real executors compute, move bytes and update; the modelled one (sim.hpp) only advances time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "actors/step_context.hpp"
#include "core/error.hpp"

namespace troupe::actors {

enum class progress : uint8_t { pending, done };  ///< whether `start` or `advance` has finished the instruction

/// Makes the lane call `executor::advance(sequence)` after `delay`. Called on the lane's own thread.
using timer = std::function<void(std::chrono::nanoseconds delay, uint64_t sequence)>;

/// Runs the instructions of one lane. Called by its lane actor only, one call at a time.
class executor {
 public:
  virtual ~executor() = default;

  /// Called once, before any other function. Executors that need no clock ignore it.
  virtual void attach([[maybe_unused]] timer t) {}

  /// Called when a run begins; the context stays valid until the next begin.
  virtual void begin(std::shared_ptr<step_context> context) = 0;

  /// Runs the instruction (`done`), or begins it (`pending`: a later wake names its sequence).
  virtual core::result<progress> start(const plan::instruction& x) = 0;

  /// Continues the pending operation `sequence` after a wake. Returns the instruction's id if it has now ended.
  virtual core::result<std::optional<uint32_t>> advance(uint64_t sequence) = 0;

  /// Called when all instructions of the run have ended on this lane. Returns when all work that they began is finished
  /// and checked.
  virtual core::result<void> settle() { return {}; }

  /// Called when the run is being given up; no further instruction is started. May be called more than once.
  virtual void abort([[maybe_unused]] const core::error& why) {}
};

}  // namespace troupe::actors
