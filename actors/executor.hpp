// Interface of an executor, which does the work of a lane's instructions and does not depend on actors; the lane actor
// decides when each instruction starts. Real executors compute, move bytes and update; a modelled one
// (sim/modelled_executor.hpp) only advances virtual time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "actors/step_context.hpp"
#include "core/error.hpp"

namespace troupe::actors {

enum class progress : uint8_t { pending, done };  ///< result of executor::start: whether the instruction has ended

/// Makes the lane call `executor::advance(sequence)` after `delay`. Called on the lane's own thread.
using timer = std::function<void(std::chrono::nanoseconds delay, uint64_t sequence)>;

/// Runs the instructions of one lane. Called by its lane actor only, one call at a time.
class executor {
 public:
  virtual ~executor() = default;

  /// Called once, before any other function. An executor stores `t` if it needs to be called again after a delay;
  /// others ignore it.
  virtual void attach([[maybe_unused]] timer t) {}

  /// Called when a run of a plan begins. `context`, the state of that run, stays valid until the next call of begin().
  virtual void begin(std::shared_ptr<step_context> context) = 0;

  /// Executes instruction `x` completely and returns `done`, or begins it and returns `pending`. While an instruction
  /// is pending, the lane calls advance() with the number of each `wake` message that it receives.
  virtual core::result<progress> start(const plan::instruction& x) = 0;

  /// Continues pending work after a `wake` message with the number `sequence`, whose meaning each executor defines.
  /// Returns the id of an instruction that has now ended; none: no instruction has.
  virtual core::result<std::optional<uint32_t>> advance(uint64_t sequence) = 0;

  /// Called when all instructions of this lane have ended in a run. Returns when all work that they have begun, for
  /// example on a device, is finished and free of errors.
  virtual core::result<void> settle() { return {}; }

  /// Called when the run is given up because of error `why`; start() is not called any more in that run. May be called
  /// more than once.
  virtual void abort([[maybe_unused]] const core::error& why) {}
};

}  // namespace troupe::actors
