// When the instructions of a run that has ended began and ended, by the clock of the run.
#pragma once

#include <cstdint>

#include "actors/step_context.hpp"

namespace troupe::actors {

inline int64_t start_of(const step_context& c, uint32_t id) {
  return c.spans[id].start_ns.load(std::memory_order_relaxed);
}
inline int64_t end_of(const step_context& c, uint32_t id) { return c.spans[id].end_ns.load(std::memory_order_relaxed); }

}  // namespace troupe::actors
