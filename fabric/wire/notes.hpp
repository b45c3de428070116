// Owns the format of the notes (short messages) that the machines of a communicator exchange, its limits, and the
// dispatch of received notes within a process. On each machine one process, the carrier, sends and receives the notes
// for all members on that machine. Leaves the handling of a note to group.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/shared/board.hpp"
#include "fabric/wire/byte_mover.hpp"
#include "fabric/wire/endings.hpp"

namespace troupe::fabric {

/// A message about one member of a communicator, from the process that represents a machine (its carrier) to the
/// process that represents another machine.
struct wire_note {
  enum class kind : uint8_t {
    arrived,  ///< `member` has posted operation `sequence`
    ends,     ///< proposes to machine 0 that `member` ends the communicator; machine 0 orders such proposals
    ended     ///< `member` has ended the communicator, and its operations fail from `sequence` on
  };
  kind what = kind::arrived;
  uint32_t member = 0;
  uint64_t sequence = 0;  ///< number of the posted operation (`arrived`), else of the first operation that fails
  arrival said;           ///< request of the arriving member (`arrived`), without locations
  core::error why;        ///< reason why `member` ends the communicator (`ends` and `ended`)
};

/// Returns the bytes of a note, with the communicator's number in front; at most `note_bytes_max`.
std::string text_of(uint64_t communicator, const wire_note& note);
/// Returns the note in `text`, from which the communicator's number was removed; nothing for bytes that are not a note.
std::optional<wire_note> note_of(std::string_view text);
/// Removes the communicator's number from the front of `text` and returns it; nothing if there is none.
std::optional<uint64_t> take_communicator(std::string_view& text);

/// Dispatches received notes to the receiver of their communicator. Notes that come before the receiver was added are
/// stored for it. Callable from any thread.
class note_switch : public std::enable_shared_from_this<note_switch> {
 public:
  /// Receives a note of process `from`, without the communicator's number.
  using hearer = std::function<void(uint32_t from, std::string_view text)>;

  /// Creates a switch that receives all notes of `mover` from now on.
  static std::shared_ptr<note_switch> make(byte_mover& mover);

  /// Sets the receiver of the communicator's notes. `hear` is called for every note, one at a time, beginning with
  /// the notes that were received before this call.
  void add(uint64_t communicator, hearer hear);

 private:
  struct line {
    std::mutex turn;  // locked while one note of the communicator is handled
    hearer hear;
    std::vector<std::pair<uint32_t, std::string>> early;
  };
  void pass(uint32_t from, std::string_view text);
  std::shared_ptr<line> line_of(uint64_t communicator);

  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<line>> lines_;
};

}  // namespace troupe::fabric
