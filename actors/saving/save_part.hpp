// A checkpoint as a writer lane sees it: a target that takes parts, one for each rank. Interfaces only; save_job.hpp
// has the real ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/error.hpp"

namespace troupe::actors {

/// One rank's part. Used by the rank's writer lane alone; a part that is destroyed before `end` fails the whole save.
/// The save itself reports errors: training continues.
class save_part {
 public:
  virtual ~save_part() = default;
  /// Whether this save takes block `b`; the others are neither copied nor written.
  [[nodiscard]] virtual bool takes(uint32_t b) const = 0;
  /// Copies a piece of block `b` and notes the digest. `to` has room for padding up to the block's next boundary.
  virtual void copy(uint32_t b, std::span<const std::byte> from, std::byte* to) = 0;
  /// The same, but `read` fills the piece's place in the slot itself; an error of it fails the save.
  virtual void fetch(uint32_t b, std::span<std::byte> to,
                     const std::function<core::result<void>(std::span<std::byte>)>& read) = 0;
  /// Hands block `b`, padded, to the disk; its memory is free again once `settle(b)` has returned.
  virtual void write(uint32_t b, std::span<const std::byte> block) = 0;
  /// Returns when no write of block `b` is under way; the time that it waited counts as backpressure.
  virtual void settle(uint32_t b) = 0;
  /// Waits for all writes; the last part to end commits. Blocks for the disk.
  virtual void end() = 0;
};

class save_target {
 public:
  virtual ~save_target() = default;
  /// Once for each rank; the part keeps the target alive.
  virtual std::unique_ptr<save_part> begin_part(uint32_t rank) = 0;
};

}  // namespace troupe::actors
