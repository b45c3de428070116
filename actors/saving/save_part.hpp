// Interfaces between a writer lane and a checkpoint: a target that takes parts, one for each rank. save_job.hpp
// implements them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/error.hpp"

namespace troupe::actors {

/// The part of one rank. Used by the rank's writer lane alone; a part that is destroyed before `end` fails the whole
/// save. The save itself reports errors: training continues.
class save_part {
 public:
  virtual ~save_part() = default;
  /// True if this save contains block `b`; other blocks are neither copied nor written.
  [[nodiscard]] virtual bool takes(uint32_t b) const = 0;
  /// Copies a piece of block `b` and stores its digest. `to` has room for padding up to the block's next boundary.
  virtual void copy(uint32_t b, std::span<const std::byte> from, std::byte* to) = 0;
  /// Calls `read` to fill the memory of one piece of block `b` in the slot, and stores the piece's digest; an error of
  /// `read` fails the save.
  virtual void fetch(uint32_t b, std::span<std::byte> to,
                     const std::function<core::result<void>(std::span<std::byte>)>& read) = 0;
  /// Hands block `b`, padded, to the disk; its memory may be reused once `settle(b)` has returned.
  virtual void write(uint32_t b, std::span<const std::byte> block) = 0;
  /// Waits until no write of block `b` is running; the time of the wait counts as backpressure.
  virtual void settle(uint32_t b) = 0;
  /// Waits for all writes; the last part to end commits. Blocks on the disk.
  virtual void end() = 0;
};

class save_target {
 public:
  virtual ~save_target() = default;
  /// Called once for each rank; the part keeps the target alive.
  virtual std::unique_ptr<save_part> begin_part(uint32_t rank) = 0;
};

}  // namespace troupe::actors
