// Who speaks for a machine: tells the other machines of arrivals and endings of its members, and writes what it hears
// of theirs into its machine's record. Owns what has been told and what has been heard too early. Wakes no one and
// judges no arrival: the group does.
//
// Endings come into force in one order on all machines: the first machine's carrier decides it. Others propose to it
// and wait for its word, but for links that are lost, which are in force at once where they were noticed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "fabric/wire/byte_mover.hpp"
#include "fabric/wire/homes.hpp"
#include "fabric/wire/machine_record.hpp"
#include "fabric/wire/notes.hpp"

namespace troupe::fabric {

class carrier {  ///< one thread at a time
 public:
  carrier(const homes& where, uint32_t machine, uint64_t communicator, std::shared_ptr<byte_mover> mover);

  /// Tells what has not been told: arrivals first, then endings.
  void tell(const machine_record& record);

  /// Of another process. Errors: mismatch, for bytes that are no note or speak for others.
  core::result<void> hear(machine_record& record, uint32_t from, std::string_view text);

  struct admitted {
    uint32_t member = 0;
    uint64_t sequence = 0;
  };
  /// Writes arrivals for which the record has room now.
  std::vector<admitted> admit(machine_record& record);

 private:
  [[nodiscard]] bool decides() const { return machine_ == 0; }
  void tell_all(const wire_note& note);
  void tell_ending(const machine_record& record, uint32_t member, wire_note::kind what);

  homes where_;
  uint32_t machine_;
  uint64_t communicator_;
  std::shared_ptr<byte_mover> mover_;
  std::vector<uint64_t> told_;              ///< by member of this machine: arrivals, how many
  std::vector<bool> proposed_, heard_;      ///< by member: its ending was proposed; is in force by another's word
  uint32_t enforced_told_ = 0;              ///< endings in force, how many
  std::vector<std::deque<wire_note>> due_;  ///< by member: arrivals that the record has no room for
  std::vector<uint64_t> next_;              ///< by member of other machines: the sequence that arrives next
};

}  // namespace troupe::fabric
