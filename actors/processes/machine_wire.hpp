// The bytes between a process of a term and those of other machines: one mover for all of it. Owns the mover and which
// note is for whom: collectives, signs of life, files of saves in memory. Bytes within a machine are shared_term.hpp's.
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
  /// Tells the others where it is, and is connected to all of other machines when it returns. Errors: the term has
  /// ended; limit or peer_lost, where the network refuses.
  static core::result<std::shared_ptr<machine_wire>> open(cluster::process& link, const term_members& who,
                                                          const std::string& secret);
  ~machine_wire();
  machine_wire(const machine_wire&) = delete;
  machine_wire& operator=(const machine_wire&) = delete;

  [[nodiscard]] const std::shared_ptr<fabric::byte_mover>& mover() const { return mover_; }
  [[nodiscard]] const std::shared_ptr<machine_files>& files() const { return files_; }
  /// Of collectives: notes of each communicator, by its number.
  [[nodiscard]] const std::shared_ptr<fabric::note_switch>& notes() const { return notes_; }
  /// Called on a thread of the mover, or at once with what has come already; it only tells.
  void on_pulses(std::function<void(std::string_view text)> hear);
  void send_pulses(uint32_t place, const std::string& text);
  /// Bytes that have come from other machines in this term.
  [[nodiscard]] uint64_t entered_bytes() const;
  /// Links from processes of other machines to this one, in this term.
  [[nodiscard]] std::vector<link_traffic> links() const;
  /// Called once for a process that is not there any more. Any thread.
  void on_lost(std::function<void(const core::error&)> tell);

  /// The process that was lost first, or the link to it; cluster::no_place: none was.
  [[nodiscard]] uint32_t lost_place() const;

  /// The term has ended: whoever waits is told, and no memory is touched any more when it returns.
  void stop(const core::error& why);

 private:
  machine_wire() = default;
  void lose(uint32_t place, const core::error& why);

  uint32_t place_ = 0;
  std::vector<uint32_t> others_;  // processes of other machines
  mutable std::mutex mutex_;
  uint32_t lost_place_ = cluster::no_place;
  std::function<void(const core::error&)> tell_;
  std::optional<core::error> lost_;
  std::shared_ptr<machine_files> files_;
  std::shared_ptr<fabric::note_switch> notes_;
  std::shared_ptr<fabric::byte_mover> mover_;
};

}  // namespace troupe::actors
