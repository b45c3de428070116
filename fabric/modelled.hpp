// Implements collectives of a simulated world: the production interface, identities and errors on a virtual clock. Owns
// how long an operation takes; leaves the clock and the delivery of wakes to the simulated world. Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/communicator.hpp"
#include "fabric/linear_link.hpp"
#include "fabric/member_of.hpp"
#include "fabric/refused_member.hpp"
#include "fabric/rendezvous.hpp"

namespace troupe::fabric {

/// Limit of the bytes (of all pieces) that a modelled operation really moves; a larger operation takes time but moves
/// nothing.
inline constexpr uint64_t modelled_move_bytes_max = uint64_t{1} << 20;

/// The simulated world's clock. `schedule` calls `advance(sequence)` of member `rank` after `delay_ns`.
struct virtual_time {
  std::function<int64_t()> now_ns;
  std::function<void(int64_t delay_ns, uint32_t rank, uint64_t sequence)> schedule;
  /// Returns how long an operation takes once it has begun, by its request without a member's addresses; empty: as long
  /// as the link needs for its bytes.
  std::function<int64_t(const request&)> duration_ns = {};
  /// Returns when an operation that could begin at `earliest_ns` begins, and books its members until it has ended;
  /// empty: at once. For members that move the bytes of one operation at a time in all their groups.
  std::function<int64_t(int64_t earliest_ns, int64_t duration_ns)> begin_ns = {};
};

/// One simulated communicator. Its operations share one link: each begins when all members have arrived and the
/// previous operation has ended. All members are scheduled for the end of the operation and see `done` from then on.
/// Bytes move at that time, if they are few enough and every member has posted operands, which a simulation may omit.
/// When the communicator fails, the wakers of its members are called at once.
class modelled_group : public std::enable_shared_from_this<modelled_group> {
 public:
  /// Creates a group of `size` >= 1 members, each of which joins once. `ranks`: the ranks that errors name, where they
  /// differ from the members' numbers in the group. `acted_by`: [member]: the member whose posts count for it, too,
  /// which must act for itself; such a member need not join and is not scheduled. Empty: all act for themselves. If the
  /// arguments are invalid, every member that joins fails with the reason.
  static std::shared_ptr<modelled_group> make(uint32_t size, linear_link link, virtual_time time,
                                              std::vector<uint32_t> ranks = {},
                                              const std::vector<uint32_t>& acted_by = {});

  /// Makes `rank` < size a member; `wake` is called at once when the communicator fails and may be empty. A rank
  /// outside the group, or one that has joined before, gets a communicator whose calls all fail (bad_input).
  std::unique_ptr<communicator> join(uint32_t rank, waker wake);

  /// Cuts the link until `until_ns`: an operation that is moving bytes, and each later one, takes the rest of the cut
  /// more. INT64_MAX: none of them ends.
  void hold(int64_t until_ns);

 private:
  friend class member_of<modelled_group>;

  modelled_group(uint32_t size, linear_link link, virtual_time time, std::vector<uint32_t> ranks)
      : wrong_(wrong_size(size, ranks)),
        rendezvous_(size, std::move(ranks)),
        wakers_(size),
        joined_(size, false),
        link_(link),
        time_(std::move(time)) {}

  [[nodiscard]] uint32_t size() const { return rendezvous_.size(); }
  /// Stores who posts for whom; `wrong_` receives what is wrong with it.
  void divide(const std::vector<uint32_t>& acted_by);
  [[nodiscard]] std::vector<uint32_t> missing(uint32_t /*rank*/, uint64_t sequence) const {
    return rendezvous_.missing(sequence);
  }
  core::result<void> post(uint32_t rank, const request& r);
  core::result<progress> advance(uint32_t rank, uint64_t sequence);
  [[nodiscard]] bool is_done(uint64_t sequence);
  void abort(uint32_t rank, const core::error& why);
  void leave(uint32_t rank);

  std::optional<core::error> wrong_;  ///< error that every joining member gets, if the arguments of `make` were invalid
  rendezvous rendezvous_;
  std::vector<waker> wakers_;  ///< [rank]: function that wakes the member; empty if the member gave none
  std::vector<bool> joined_;   ///< [rank]: true if the rank has joined the group
  linear_link link_;
  virtual_time time_;
  int64_t link_free_ns_ = 0;     ///< virtual time from which on the link is free: end of the last operation that began
  int64_t held_until_ns_ = 0;    ///< virtual time at which the last cut of the link ends
  std::deque<uint64_t> moving_;  ///< operations that all members have posted, in order; those at the front may be done
  /// [member]: further members that it acts for; empty: none acts for another
  std::vector<std::vector<uint32_t>> followers_;
  std::vector<uint32_t> acting_;  ///< members that act for themselves
};

}  // namespace troupe::fabric
