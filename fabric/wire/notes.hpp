// What processes that speak for the machines of a communicator write to each other, as bytes and back; and who of a
// process reads what has come. Owns the format and its bounds; what follows from a note is the group's.
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

/// One of them.
struct wire_note {
  enum class kind : uint8_t {
    arrived,  ///< `member` has arrived at `sequence`
    ends,     ///< to who decides: `member` says this ending
    ended     ///< the ending of `member` is in force
  };
  kind what = kind::arrived;
  uint32_t member = 0;
  uint64_t sequence = 0;  ///< or from which the ending holds
  arrival said;           ///< of arrived, without locations
  core::error why;        ///< of the others
};

/// At most `note_bytes_max`.
std::string text_of(uint64_t communicator, const wire_note& note);
/// Of the text that a communicator's number stands before; nothing for bytes that are no note.
std::optional<wire_note> note_of(std::string_view text);
/// Takes the number off the front; nothing if there is none.
std::optional<uint64_t> take_communicator(std::string_view& text);

/// Who hears the notes of each communicator. Those that come before anybody listens wait for him. Any thread.
class note_switch : public std::enable_shared_from_this<note_switch> {
 public:
  /// Of a process that takes a place in a term.
  using hearer = std::function<void(uint32_t from, std::string_view text)>;

  /// From now on notes of `mover` come here.
  static std::shared_ptr<note_switch> make(byte_mover& mover);

  /// `hear` is called for every note of the communicator, first those that have come already, one at a time.
  void add(uint64_t communicator, hearer hear);

 private:
  struct line {
    std::mutex turn;  // one note of a communicator at a time
    hearer hear;
    std::vector<std::pair<uint32_t, std::string>> early;
  };
  void pass(uint32_t from, std::string_view text);
  std::shared_ptr<line> line_of(uint64_t communicator);

  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<line>> lines_;
};

}  // namespace troupe::fabric
