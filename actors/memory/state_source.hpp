// States of one rank as whoever saves them reads them. Owns the words; state_store.hpp has the real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "plan/tiers.hpp"

namespace troupe::actors {

/// Between steps, or in one before anything changes what is read.
class state_source {
 public:
  virtual ~state_source() = default;
  [[nodiscard]] virtual core::dtype type_of(plan::state_part part) const = 0;
  /// `range`, which is held, where all of it lies in one run of memory, else null.
  [[nodiscard]] virtual std::byte* in_memory(uint32_t parameter, plan::state_part part, plan::slice range) const = 0;
  /// Elements from `first` on, which are held, as they are stored; `out` is whole elements. Errors: io with file and
  /// offset.
  virtual core::result<void> read(uint32_t parameter, plan::state_part part, uint64_t first,
                                  std::span<std::byte> out) const = 0;
};

}  // namespace troupe::actors
