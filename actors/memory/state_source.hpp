// States of one rank, as a save reads them. An interface only; state_store.hpp has the real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "plan/tiers.hpp"

namespace troupe::actors {

/// To be used between steps, or within one before the states that are read change.
class state_source {
 public:
  virtual ~state_source() = default;
  [[nodiscard]] virtual core::dtype type_of(plan::state_part part) const = 0;
  /// The address of `range`, which the rank holds, if all of it lies in one run of memory; else null.
  [[nodiscard]] virtual std::byte* in_memory(uint32_t parameter, plan::state_part part, plan::slice range) const = 0;
  /// Reads elements from `first` on, which the rank holds, as they are stored; `out` is whole elements. Errors: io with
  /// file and offset.
  virtual core::result<void> read(uint32_t parameter, plan::state_part part, uint64_t first,
                                  std::span<std::byte> out) const = 0;
};

}  // namespace troupe::actors
