// Represents one machine: sends the requests that its members have posted (arrivals) and the reasons why its members
// ended the communicator (endings) to the other machines, and writes the arrivals and endings of members of other
// machines into its own machine's record. Owns the state of what has been sent, and received arrivals for which the
// record has no room yet. Leaves wakes and the comparison of requests to group.hpp.
//
// Endings come into force in one order on all machines, which the carrier of the first machine decides. The carriers of
// other machines propose endings to that carrier and wait for its answer. The exception is the ending because of a lost
// link: it is in force at once on the machine that noticed the loss.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "fabric/wire/byte_mover.hpp"
#include "fabric/wire/homes.hpp"
#include "fabric/wire/machine_record.hpp"
#include "fabric/wire/notes.hpp"

namespace troupe::fabric {

/// Exchanges notes with the other machines for all members of one machine; used by one thread at a time.
class carrier {
 public:
  carrier(const homes& where, uint32_t machine, uint64_t communicator, std::shared_ptr<byte_mover> mover);

  /// Sends to the other machines the requests that members of this machine have posted, then its members' endings;
  /// omits requests and endings that an earlier call has sent. On the first machine it also sends which endings are
  /// in force.
  void tell(const machine_record& record);

  /// Handles a note of process `from`. Errors: mismatch, for bytes that are not a note, or for a note about members
  /// that the sender does not represent.
  core::result<void> hear(machine_record& record, uint32_t from, std::string_view text);

  struct admitted {
    uint32_t member = 0;
    uint64_t sequence = 0;
  };
  /// Writes the received arrivals (requests of members of other machines) for which the record now has room, and
  /// returns them.
  std::vector<admitted> admit(machine_record& record);

 private:
  [[nodiscard]] bool decides() const { return machine_ == 0; }
  void tell_all(const wire_note& note);
  void tell_ending(const machine_record& record, uint32_t member, wire_note::kind what);

  homes where_;
  uint32_t machine_;
  uint64_t communicator_;
  std::shared_ptr<byte_mover> mover_;
  /// [member of this machine]: number of its posted requests that were sent to the other machines
  std::vector<uint64_t> told_;
  /// `proposed_`: [member], true if this object has proposed to the first machine that the member ends the
  /// communicator. `announced_`: [member], true if a note of another machine has brought the member's ending into
  /// force.
  std::vector<bool> proposed_, announced_;
  uint32_t enforced_told_ = 0;  ///< number of endings in force that have been sent to the other machines
  /// [member]: received requests of the member for which the machine's record has no room yet
  std::vector<std::deque<wire_note>> due_;
  /// [member of another machine]: sequence of the next operation of which the member's request is to be written into
  /// this machine's record
  std::vector<uint64_t> next_;
};

}  // namespace troupe::fabric
