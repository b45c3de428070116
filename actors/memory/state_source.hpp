// Interface through which a save reads the states of one rank; state_store.hpp implements it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "plan/tiers.hpp"

namespace troupe::actors {

/// Reads parameters and optimizer states of one rank. Call its functions between steps, or within a step as long as the
/// states that are read have not changed in it.
class state_source {
 public:
  virtual ~state_source() = default;
  [[nodiscard]] virtual core::dtype type_of(plan::state_part part) const = 0;
  /// Returns the address of `range`, which the rank holds, if the whole range is contiguous in memory; else null.
  [[nodiscard]] virtual std::byte* in_memory(uint32_t parameter, plan::state_part part, plan::slice range) const = 0;
  /// Fills `out` with elements from `first` on in the type in which they are stored; the rank must hold them, and the
  /// size of `out` must be a multiple of the element size. Errors: io with file and offset.
  virtual core::result<void> read(uint32_t parameter, plan::state_part part, uint64_t first,
                                  std::span<std::byte> out) const = 0;
};

}  // namespace troupe::actors
