// Resources that the processes of a term (time with the same processes) share. On one machine: a memory segment for
// each rank, with the pools that the fabric lane accesses; boards, which record which members have posted which
// collective of a communicator; bells, events by which processes wake each other; and the ranks' pulses. Between
// machines: a network connection (wire). Owns one process's mappings of them, for one term. The caller owns the
// assignment of ranks and the contents of pools.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/memory/shared_pools.hpp"
#include "actors/processes/machine_pulses.hpp"
#include "actors/processes/machine_wire.hpp"
#include "actors/processes/members.hpp"
#include "cluster/process.hpp"
#include "device/device_id.hpp"
#include "fabric/in_process.hpp"
#include "fabric/shared/group.hpp"
#include "fabric/wire/group.hpp"
#include "plan/job_layout.hpp"
#include "storage/memory/shared_memory.hpp"
#include "storage/queue/event_watch.hpp"

namespace troupe::actors {

class shared_term : public std::enable_shared_from_this<shared_term> {
 public:
  /// Creates this process's resources and offers them to the other processes of the term (time with the same processes)
  /// that `link` is in; waits for the resources of these processes and maps them. `layout` and `segment_bytes`, the
  /// size of each rank's segment by shared_layout_of(), must be equal on all processes. `secret`: 32 bytes for the
  /// connections between machines. Errors: limit; those of `link`, if the term ends meanwhile.
  static core::result<std::shared_ptr<shared_term>> make(cluster::process& link, const term_members& who,
                                                         const plan::job_layout& layout,
                                                         const std::vector<uint64_t>& segment_bytes,
                                                         const std::string& secret, device::device_id device = {});
  ~shared_term();
  shared_term(const shared_term&) = delete;
  shared_term& operator=(const shared_term&) = delete;

  /// Returns the segment of a rank of this machine, empty for other ranks. The segment keeps its own mapping alive.
  [[nodiscard]] shared_segment segment_of(uint32_t rank) const;

  /// Makes a rank of this process the `member`-th member of a communicator of the layout. Members in other processes
  /// are reached through shared memory or the network. `wake` is called when a collective of this member can continue.
  std::shared_ptr<fabric::communicator> join(uint32_t communicator, uint32_t member, fabric::waker wake);

  /// Starts to write the pulses of this process's ranks for other processes, at intervals of `every`, and to show the
  /// pulses of other processes' ranks on `board`.
  core::result<void> show_pulses(const std::shared_ptr<pulse_board>& board, std::chrono::nanoseconds every);

  /// Returns the connection to other machines; null if all processes, including those without ranks, are on one
  /// machine.
  [[nodiscard]] machine_wire* wire() const { return wire_.get(); }
  /// Ends transfers from and to other machines, because the term (time with the same processes) has ended: when this
  /// returns, they access no memory of this process any more.
  void stop(const core::error& why);

 private:
  /// This process's group for one communicator: one pointer is set, depending on where the members are; none if the
  /// communicator has no member here.
  struct local_group {
    std::shared_ptr<fabric::in_process_group> within;
    std::shared_ptr<fabric::shared_group> across;
    std::shared_ptr<fabric::wire_group> between;  ///< set if the communicator's members are on several machines
  };
  shared_term(const term_members& who, uint64_t boards_bytes);
  core::result<void> map(cluster::process& link, const plan::job_layout& layout,
                         const std::vector<uint64_t>& segment_bytes, device::device_id device);
  [[nodiscard]] core::result<void> offer_segments(cluster::process& link, const std::vector<uint64_t>& bytes);
  core::result<void> make_groups(const plan::job_layout& layout, device::device_id device);
  [[nodiscard]] bool speaks_for_machine() const;
  void ring(uint32_t place) const;
  void hear_bell();
  void write_pulses();

  term_members who_;
  uint64_t boards_bytes_;
  std::shared_ptr<storage::shared_memory> boards_;
  std::vector<std::shared_ptr<storage::shared_memory>> segments_;  // shared memory with the pools of a rank, by rank
  // [other process of this machine]: its number in the job, and the event that wakes it
  std::vector<std::pair<uint32_t, cluster::shared_descriptor>> bells_;
  std::shared_ptr<fabric::address_space> space_ = std::make_shared<fabric::address_space>();
  std::vector<local_group> groups_;  // [communicator]: this process's group for it
  cluster::shared_descriptor bell_, timer_;
  std::shared_ptr<pulse_board> pulses_;
  std::optional<machine_pulses> shown_;
  std::shared_ptr<machine_wire> wire_;
  // Thread that waits for this process's event and timer; last member, because its callbacks use all other members.
  std::unique_ptr<storage::event_watch> watch_;
};

}  // namespace troupe::actors
