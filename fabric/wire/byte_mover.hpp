// Declares how collectives move bytes between processes that share no memory. An interface: the implementation owns
// links, threads and secrets; the caller owns the memory and the meaning of names.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::fabric {

/// Name of a transfer between two processes, in one direction: equal on both ends, and never used twice.
struct transfer_name {
  uint64_t communicator = 0, sequence = 0, part = 0;
  friend auto operator<=>(const transfer_name&, const transfer_name&) = default;
};

/// Receives the result of a transfer. Called from any thread, perhaps before `send` or `receive` has returned; the
/// function may only send a notification. Never called after `stop` has returned.
using transfer_end = std::function<void(const core::result<void>&)>;

/// Numbers of bytes that transfers have moved to and from another process; notes (short messages) are not counted.
struct moved_bytes {
  uint64_t sent = 0, received = 0;
  friend bool operator==(const moved_bytes&, const moved_bytes&) = default;
};

/// Upper limit of a note's size, in bytes.
inline constexpr uint64_t note_bytes_max = 4096;

/// Moves bytes (transfers) and short messages (notes) between this process and the other processes of a job. A process
/// is identified by its place, its number in the job. Callable from any thread; no call blocks, except `stop`.
class byte_mover {
 public:
  virtual ~byte_mover() = default;

  /// Sends `bytes` to the process with number `place`. Both ends pass the same name and the same number of bytes; the
  /// transfer begins when both ends have called. The memory, and everything that `tell` owns, must stay unchanged until
  /// `tell` was called or `stop` has returned.
  virtual void send(uint32_t place, const transfer_name& name, std::span<const std::byte> bytes, transfer_end tell) = 0;
  virtual void receive(uint32_t place, const transfer_name& name, std::span<std::byte> bytes, transfer_end tell) = 0;

  /// Sends a short message of at most `note_bytes_max` bytes to the process with number `place`. Notes to one process
  /// arrive in the order in which they were sent.
  virtual void note(uint32_t place, std::string text) = 0;
  /// Sets the receiver of notes. Called before use; the receiver runs on a mover's thread, for one note of a process at
  /// a time.
  virtual void on_note(std::function<void(uint32_t from, std::string_view text)> hear) = 0;

  /// Ends all transfers with `why` and refuses further ones. After it returns the mover touches no memory and calls no
  /// callback.
  virtual void stop(const core::error& why) = 0;

  /// Returns the bytes moved to and from the process with number `place` so far: for the log of communication and for
  /// tests.
  [[nodiscard]] virtual moved_bytes moved(uint32_t place) const = 0;
  /// Returns the nanoseconds so far in which a transfer from the process with number `place` was in progress: its first
  /// bytes had arrived, its last ones had not. 0 if the implementation does not measure.
  [[nodiscard]] virtual int64_t receiving_ns(uint32_t /*place*/) const { return 0; }
};

}  // namespace troupe::fabric
