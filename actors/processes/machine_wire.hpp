// Moves bytes between a process of a term and those of other machines, with one mover for all uses. Owns the mover and
// the distribution of notes: collectives, pulses, files of saves in memory. shared_term.hpp shares bytes within a
// machine.
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
  /// Publishes this process's address, and returns when it is connected to all processes of other machines. Errors: the
  /// term has ended; limit or peer_lost, if the network refuses.
  static core::result<std::shared_ptr<machine_wire>> open(cluster::process& link, const term_members& who,
                                                          const std::string& secret);
  ~machine_wire();
  machine_wire(const machine_wire&) = delete;
  machine_wire& operator=(const machine_wire&) = delete;

  [[nodiscard]] const std::shared_ptr<fabric::byte_mover>& mover() const { return mover_; }
  [[nodiscard]] const std::shared_ptr<machine_files>& files() const { return files_; }
  /// Returns the distributor of the notes of collectives, by the number of the communicator.
  [[nodiscard]] const std::shared_ptr<fabric::note_switch>& notes() const { return notes_; }
  /// Sets the function that receives notes with pulses. Called on a thread of the mover, or at once with notes that
  /// have come already; it must not block.
  void on_pulses(std::function<void(std::string_view text)> hear);
  void send_pulses(uint32_t place, const std::string& text);
  /// Returns the bytes that have come from other machines in this term.
  [[nodiscard]] uint64_t entered_bytes() const;
  /// Returns the links from processes of other machines to this one, in this term.
  [[nodiscard]] std::vector<link_traffic> links() const;
  /// Sets the function that is called once when a process is lost, on any thread.
  void on_lost(std::function<void(const core::error&)> tell);

  /// Returns the place of the process that was lost first, or to which the link was lost first; cluster::no_place: none
  /// was lost.
  [[nodiscard]] uint32_t lost_place() const;

  /// Ends the wire's work in the term: fails all waits, and returns when no memory is accessed any more.
  void stop(const core::error& why);

 private:
  machine_wire() = default;
  void lose(uint32_t place, const core::error& why);

  uint32_t place_ = 0;
  std::vector<uint32_t> others_;  // places of processes of other machines
  mutable std::mutex mutex_;
  uint32_t lost_place_ = cluster::no_place;
  std::function<void(const core::error&)> tell_;
  std::optional<core::error> lost_;
  std::shared_ptr<machine_files> files_;
  std::shared_ptr<fabric::note_switch> notes_;
  std::shared_ptr<fabric::byte_mover> mover_;
};

}  // namespace troupe::actors
