// Interfaces through which a writer lane writes a checkpoint: a target (the checkpoint), and one part of it for each
// rank. save_job.hpp implements them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/error.hpp"

namespace troupe::actors {

/// The part of a checkpoint that one rank writes. Used by the rank's writer lane alone. If a part is destroyed before
/// end(), the whole save fails. Errors are reported by the save only, because training continues after a failed save.
class save_part {
 public:
  virtual ~save_part() = default;
  /// True if this save contains block `b`; other blocks are neither copied nor written.
  [[nodiscard]] virtual bool takes(uint32_t b) const = 0;
  /// Copies the next piece of block `b` from `from` to `to`, in a staging slot with room for padding up to the next
  /// boundary, and stores the piece's digest.
  virtual void copy(uint32_t b, std::span<const std::byte> from, std::byte* to) = 0;
  /// Calls `read` to fill `to`, the memory of the next piece of block `b` in a staging slot, and stores the piece's
  /// digest; an error of `read` fails the save.
  virtual void fetch(uint32_t b, std::span<std::byte> to,
                     const std::function<core::result<void>(std::span<std::byte>)>& read) = 0;
  /// Begins to write block `b`, which is in the memory `block` with its padding; that memory may be reused once
  /// settle(b) has returned.
  virtual void write(uint32_t b, std::span<const std::byte> block) = 0;
  /// Waits until block `b` is not being written; the time of the wait is reported as waiting for the disk.
  virtual void settle(uint32_t b) = 0;
  /// Ends the part after waiting for its writes. The last part of the save that ends commits the checkpoint. Blocks on
  /// the disk.
  virtual void end() = 0;
};

class save_target {
 public:
  virtual ~save_target() = default;
  /// Begins the part of a rank; call once for each rank. The part keeps its target alive.
  virtual std::unique_ptr<save_part> begin_part(uint32_t rank) = 0;
};

}  // namespace troupe::actors
