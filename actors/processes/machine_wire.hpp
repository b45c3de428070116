// Moves bytes between a process and the processes of other machines during a term, with one byte mover for all uses:
// collectives, pulses (progress of ranks), files of saves in memory. Owns the mover and the distribution of its
// messages (notes) to these uses. shared_term.hpp shares bytes within a machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/processes/link_traffic.hpp"
#include "actors/processes/machine_files.hpp"
#include "actors/processes/members.hpp"
#include "cluster/process.hpp"
#include "fabric/wire/byte_mover.hpp"
#include "fabric/wire/notes.hpp"

namespace troupe::actors {

class machine_wire {
 public:
  /// Connects this process with all processes on other machines: publishes its address and waits until they are
  /// connected. Errors: the term (time with the same processes) has ended; limit or peer_lost, if the network refuses.
  static core::result<std::shared_ptr<machine_wire>> open(cluster::process& link, const term_members& who,
                                                          const std::string& secret);
  ~machine_wire();
  machine_wire(const machine_wire&) = delete;
  machine_wire& operator=(const machine_wire&) = delete;

  [[nodiscard]] const std::shared_ptr<fabric::byte_mover>& mover() const { return mover_; }
  [[nodiscard]] const std::shared_ptr<machine_files>& files() const { return files_; }
  /// Returns the object that passes each message of a collective on to its communicator, by the communicator's number.
  [[nodiscard]] const std::shared_ptr<fabric::note_switch>& notes() const { return notes_; }
  /// Sets the function that receives messages with pulses. It is called on a thread of the mover, or at once for
  /// messages that have arrived already, and must not block.
  void on_pulses(std::function<void(std::string_view text)> hear);
  void send_pulses(uint32_t place, const std::string& text);
  /// Returns the number of bytes that this process has received from other machines in this term (time with the same
  /// processes).
  [[nodiscard]] uint64_t entered_bytes() const;
  /// Returns the traffic of the links from processes of other machines to this one in this term (time with the same
  /// processes).
  [[nodiscard]] std::vector<link_traffic> links() const;
  /// Sets the function that is called once when a process is lost, on any thread.
  void on_lost(std::function<void(const core::error&)> tell);

  /// Returns the number, in the job, of the process that was lost first, or the link to which was lost first;
  /// cluster::no_place: none was lost.
  [[nodiscard]] uint32_t lost_place() const;

  /// Ends all transfers of the term (time with the same processes): waits fail with `why`; when this returns, no memory
  /// is accessed any more.
  void stop(const core::error& why);

 private:
  machine_wire() = default;
  void lose(uint32_t place, const core::error& why);

  uint32_t place_ = 0;
  std::vector<uint32_t> others_;  // numbers of the processes on other machines
  mutable std::mutex mutex_;
  uint32_t lost_place_ = cluster::no_place;
  std::function<void(const core::error&)> tell_;
  std::optional<core::error> lost_;
  std::shared_ptr<machine_files> files_;
  std::shared_ptr<fabric::note_switch> notes_;
  std::shared_ptr<fabric::byte_mover> mover_;
};

}  // namespace troupe::actors
