// What moves bytes between processes that share no memory, as collectives use it. An interface: who implements it owns
// links, threads and secrets; who uses it owns the memory and the meaning of names.
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

/// Which transfer between two processes, one way: equal on both ends, and never used twice.
struct transfer_name {
  uint64_t communicator = 0, sequence = 0, part = 0;
  friend auto operator<=>(const transfer_name&, const transfer_name&) = default;
};

/// How a transfer ended. Called from any thread, perhaps before `send` or `receive` has returned; it only tells. Never
/// called after `stop` has returned.
using transfer_end = std::function<void(const core::result<void>&)>;

/// Bytes of transfers, without notes.
struct moved_bytes {
  uint64_t sent = 0, received = 0;
  friend bool operator==(const moved_bytes&, const moved_bytes&) = default;
};

/// The longest note.
inline constexpr uint64_t note_bytes_max = 4096;

/// One process's. Processes are called by their places. Calls come from any thread and never wait, but for `stop`.
class byte_mover {
 public:
  virtual ~byte_mover() = default;

  /// Both ends give the same name and the same number of bytes; a transfer moves once both have called. The memory
  /// stays as it is until `tell` was called or `stop` has returned, and whatever `tell` owns lives as long.
  virtual void send(uint32_t place, const transfer_name& name, std::span<const std::byte> bytes, transfer_end tell) = 0;
  virtual void receive(uint32_t place, const transfer_name& name, std::span<std::byte> bytes, transfer_end tell) = 0;

  /// A short message, at most `note_bytes_max`, in order among the notes to one place.
  virtual void note(uint32_t place, std::string text) = 0;
  /// Who hears notes: set before use, called on a mover's thread, one note of a place at a time.
  virtual void on_note(std::function<void(uint32_t from, std::string_view text)> hear) = 0;

  /// Ends all transfers with `why` and refuses further ones; when it returns no memory is touched and nothing is told
  /// any more.
  virtual void stop(const core::error& why) = 0;

  /// To and from a place so far: for the log of communication and for tests.
  [[nodiscard]] virtual moved_bytes moved(uint32_t place) const = 0;
  /// Nanoseconds so far in which a transfer from a place was coming in: its first bytes were there, its last ones not.
  /// 0 where nobody measures.
  [[nodiscard]] virtual int64_t receiving_ns(uint32_t /*place*/) const { return 0; }
};

}  // namespace troupe::fabric
