// Collectives among processes of several machines, with the bits of one: members of a machine read and write each
// other's memory, as in fabric/shared/group.hpp, and a byte_mover carries what crosses between machines. Owns one
// process's view of a communicator: its members, their work, and, in one process of each machine, what machines tell
// each other. How processes of a machine are woken is the caller's, and so are the links.
//
// An operation is done for a member when all members of its machine have done their shares: each has received and
// stored all that is its own, and what it sent has left its memory. What other machines do among themselves then is of
// no concern to it: nobody there can reach its memory, and whatever they still need from here is under way. That is
// why an ending holds from a sequence on (endings.hpp): who leaves having done all does no harm to the others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/communicator.hpp"
#include "fabric/shared/address_space.hpp"
#include "fabric/shared/group.hpp"
#include "fabric/wire/carrier.hpp"
#include "fabric/wire/machine_record.hpp"
#include "fabric/wire/member_work.hpp"
#include "fabric/wire/notes.hpp"

namespace troupe::fabric {

/// Of one communicator and process. All but `memory`, `place`, `space`, `ring`, `mover` and `notes` is equal on all.
struct wire_setting {
  std::span<std::byte> memory;  ///< machine_record::bytes_of(shape), the same bytes in all processes of the machine
  board_shape shape;
  homes where;
  uint32_t place = 0;         ///< this process
  uint64_t communicator = 0;  ///< of notes and transfers, used once for as long as the mover lives
  std::shared_ptr<const address_space> space;
  bell ring;  ///< for members of other processes of this machine
  std::shared_ptr<byte_mover> mover;
  std::shared_ptr<note_switch> notes;
  std::vector<uint32_t> ranks{};  ///< what errors call members, where that is not their number here
  wire_limits limits{};
};

/// As shared_group, and: what a member refuses on another machine than the first, `advance` says, once the first has
/// decided which of several reasons is the one for all. After an error bytes may still be moved from and to memory of
/// unfinished operations until the mover has stopped: stop it before that memory, or what `ring` uses, is given back,
/// and not before all processes have ended their members, for what they have been told may still be under way.
class wire_group : public std::enable_shared_from_this<wire_group> {
 public:
  /// `memory` and the segments of `space` are kept mapped by the caller, who keeps the group as long as any process
  /// has members: this one may speak for its machine. Errors: limit; bad_input, for a setting that lacks something.
  static core::result<std::shared_ptr<wire_group>> make(wire_setting s);

  /// Makes `rank` one of this process, where it lives; `wake` may be empty for a member that calls `advance` by itself.
  /// Members may post before all have joined. Another rank, or one that has joined before, gets a communicator whose
  /// calls all fail (bad_input). Callable from any thread.
  std::unique_ptr<communicator> join(uint32_t rank, waker wake);

  /// Somebody has rung: wakes the members of this process that have something to do. Any thread.
  void look();

  /// Links to other machines are lost because of `why`: the communicator ends at once for all of this machine. Any
  /// thread. A transfer that ends with an error does the same by itself.
  void end(const core::error& why);

  /// The most staging memory that members of this process have had, for reports and tests.
  [[nodiscard]] uint64_t most_staged_bytes() const;

 private:
  class member;
  struct local;
  struct wakes {  ///< whom to tell, once the lock is given back
    std::vector<std::pair<std::shared_ptr<const waker>, uint64_t>> here;
    std::vector<uint32_t> elsewhere;
  };
  explicit wire_group(wire_setting s);

  core::result<void> post(uint32_t rank, const request& r);
  core::result<progress> advance(uint32_t rank, uint64_t sequence);
  void abort(uint32_t rank, const core::error& why);
  void leave(uint32_t rank);
  [[nodiscard]] std::vector<uint32_t> missing(uint32_t rank, uint64_t sequence) const;
  void hear(uint32_t from, std::string_view text);

  [[nodiscard]] std::string name_of(uint32_t rank) const;
  // With the lock held:
  core::result<void> book(uint32_t rank, const request& r);
  [[nodiscard]] uint64_t oldest_unfinished();
  [[nodiscard]] core::result<void> agreed(uint32_t rank, uint64_t sequence) const;
  std::vector<std::pair<request, std::vector<member_memory>>> take_ready(uint32_t rank);
  void finish(uint32_t rank, const member_work::outcome& worked);
  [[nodiscard]] core::error lost(uint32_t rank);
  [[nodiscard]] core::error lost_link(uint32_t rank, const member_work::failed_transfer& failed) const;
  void say(uint32_t rank, const core::error& why, bool at_once);
  bool carry();
  [[nodiscard]] std::optional<core::error> failure_of(const local& me, uint64_t sequence) const;
  [[nodiscard]] std::vector<uint32_t> not_arrived(uint64_t sequence) const;
  [[nodiscard]] std::vector<uint32_t> awaited(uint32_t rank, uint64_t sequence) const;
  [[nodiscard]] wakes due() const;
  // Gives it back:
  void tell_all(std::unique_lock<std::mutex>& lock, uint32_t but, std::optional<uint64_t> its_sequence);

  wire_setting setting_;
  std::shared_ptr<const wire_links> links_;
  uint32_t machine_;
  machine_record record_;
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  std::map<uint32_t, local> here_;  ///< by rank: the members of this process
  std::optional<carrier> carrier_;  ///< where this process speaks for its machine
  uint64_t oldest_ = 0;             ///< the first sequence that some of this machine have not done
  uint32_t working_ = 0;            ///< members of this process that work without the lock
  uint64_t most_staged_bytes_ = 0;  ///< of members that have left
};

}  // namespace troupe::fabric
