// The work of a lane's instructions. The lane actor decides when; an executor does it and knows no actors.
// Real ones compute, move bytes and update; the modelled one (sim.hpp) only lets time pass.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "actors/step_context.hpp"
#include "core/error.hpp"

namespace troupe::actors {

enum class progress : uint8_t { pending, done };  ///< whether `start` or `advance` has finished it

/// Asks the lane for `executor::advance(sequence)` after `delay`. Called on the lane's own thread.
using timer = std::function<void(std::chrono::nanoseconds delay, uint64_t sequence)>;

/// One lane's hands. Called by its lane actor only, one call at a time.
class executor {
 public:
  virtual ~executor() = default;

  /// Called once, before anything else. Executors that need no clock ignore it.
  virtual void attach([[maybe_unused]] timer t) {}

  /// A run begins; the context stays valid until the next begin.
  virtual void begin(std::shared_ptr<step_context> context) = 0;

  /// Does the instruction (`done`), or begins it (`pending`; a wake will name its sequence).
  virtual core::result<progress> start(const plan::instruction& x) = 0;

  /// Continues the pending operation `sequence` after a wake: the instruction's id if it has ended now.
  virtual core::result<std::optional<uint32_t>> advance(uint64_t sequence) = 0;

  /// All instructions of the run have ended on this lane: returns when what they began is over, and nothing of it is
  /// left to be checked.
  virtual core::result<void> settle() { return {}; }

  /// The run is being given up; nothing will be started any more. May be called more than once.
  virtual void abort([[maybe_unused]] const core::error& why) {}
};

}  // namespace troupe::actors
