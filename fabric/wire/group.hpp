// Implements collectives among processes of several machines, with the same bits as on one machine: members of a
// machine read and write each other's memory, as in fabric/shared/group.hpp, and a byte_mover carries the bytes that
// cross between machines. Owns one process's view of a communicator: its members, their work, and, in one process of
// each machine, the notes between machines. Leaves the way to wake processes of a machine, and the links, to the
// caller.
//
// An operation is done for a member when all members of its machine have done their parts: each has received and
// stored its results, and the bytes it sent have left its memory. Other machines may still be working on the operation
// then; they cannot reach this member's memory, and the bytes they still need from this machine have already left it.
// That is why an ending holds from a sequence on (endings.hpp): a member that leaves after its last operation does not
// make other members fail.
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

#include "fabric/member_of.hpp"
#include "fabric/shared/address_space.hpp"
#include "fabric/shared/group.hpp"
#include "fabric/wire/carrier.hpp"
#include "fabric/wire/machine_record.hpp"
#include "fabric/wire/member_work.hpp"
#include "fabric/wire/notes.hpp"

namespace troupe::fabric {

/// Setting of one communicator in one process. All fields but `memory`, `place`, `space`, `ring`, `mover` and `notes`
/// are equal in all processes.
struct wire_setting {
  std::span<std::byte> memory;  ///< machine_record::bytes_of(shape) bytes, shared by all processes of the machine
  board_shape shape;
  homes where;
  uint32_t place = 0;         ///< number of this process
  uint64_t communicator = 0;  ///< number of the communicator in notes and transfers, used once in the mover's life
  std::shared_ptr<const address_space> space;
  bell ring;  ///< function that wakes a member's process; called for members in other processes of this machine
  std::shared_ptr<byte_mover> mover;
  std::shared_ptr<note_switch> notes;
  std::vector<uint32_t> ranks{};  ///< [member]: rank that errors name for the member; empty: its own number in the
                                  ///< group
  wire_limits limits{};
};

/// One communicator over several machines. Behaves as shared_group, with two differences. A refusal on a machine other
/// than the first is reported by `advance`, after the first machine has decided which of several reasons holds for all.
/// After an error bytes may still be moved from and to memory of unfinished operations until the mover has stopped:
/// stop it before that memory, or whatever `ring` uses, is released, and only after all processes have ended their
/// members, because notes for them may still be in transit.
class wire_group : public std::enable_shared_from_this<wire_group> {
 public:
  /// Creates the group. The caller keeps `memory` and the segments of `space` mapped, and keeps the group as long as
  /// any process has members, because this process may carry its machine's notes. Errors: limit; bad_input, for a
  /// setting with a missing field.
  static core::result<std::shared_ptr<wire_group>> make(wire_setting s);

  /// Makes `rank`, whose home is this process, a member; `wake` may be empty for a member that calls `advance` by
  /// itself. Members may post before all have joined. A rank outside the group or of another process, or one that has
  /// joined before, gets a communicator whose calls all fail (bad_input). Callable from any thread.
  std::unique_ptr<communicator> join(uint32_t rank, waker wake);

  /// Handles a ring of another process: wakes the members of this process that have something to do. Callable from any
  /// thread.
  void look();

  /// Handles the loss of links to other machines because of `why`: ends the communicator at once for all of this
  /// machine. Callable from any thread. A failed transfer ends the communicator without this call.
  void end(const core::error& why);

  /// Returns the peak staging bytes of this process's members, summed over them, for reports and tests.
  [[nodiscard]] uint64_t most_staged_bytes() const;

 private:
  friend class member_of<wire_group>;
  struct local;
  struct wakes {  ///< members to notify after the lock is released
    std::vector<std::pair<std::shared_ptr<const waker>, uint64_t>> here;
    std::vector<uint32_t> elsewhere;
  };
  explicit wire_group(wire_setting s);

  core::result<void> post(uint32_t rank, const request& r);
  core::result<progress> advance(uint32_t rank, uint64_t sequence);
  void abort(uint32_t rank, const core::error& why);
  void leave(uint32_t rank);
  [[nodiscard]] std::vector<uint32_t> missing(uint32_t rank, uint64_t sequence) const;
  [[nodiscard]] uint32_t size() const { return setting_.shape.members; }
  void hear(uint32_t from, std::string_view text);

  [[nodiscard]] std::string name_of(uint32_t rank) const;
  // Callers of the functions from book() to due() hold mutex_.
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
  // Requires that `lock` is held and releases it, before it calls wakers and rings the bell of other processes.
  void tell_all(std::unique_lock<std::mutex>& lock, uint32_t but, std::optional<uint64_t> its_sequence);

  wire_setting setting_;
  std::shared_ptr<const wire_links> links_;
  uint32_t machine_;
  machine_record record_;
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  std::map<uint32_t, local> here_;  ///< [rank]: state of a member in this process
  std::optional<carrier> carrier_;  ///< set if this process represents its machine
  uint64_t oldest_ = 0;             ///< sequence number of the first operation that some members of this machine have
                                    ///< not done
  uint32_t working_ = 0;            ///< number of members of this process that work without the lock
  uint64_t most_staged_bytes_ = 0;  ///< peak bytes of staging memory, summed over the members that have left
};

}  // namespace troupe::fabric
