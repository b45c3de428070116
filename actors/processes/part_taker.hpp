// Passes the results of parts of saves that other processes write to the saves, on a thread of its own: the last part
// commits, which blocks on the disk, and the thread that receives notifications must not block. Owns the thread and the
// assignment of parts to saves.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "actors/saving/save_job.hpp"

namespace troupe::actors {

class part_taker {
 public:
  part_taker();
  /// Abandons all saves of which parts of other processes have not arrived.
  ~part_taker();
  part_taker(const part_taker&) = delete;
  part_taker& operator=(const part_taker&) = delete;

  /// Makes `save` the receiver of the parts that other processes report for run number `run`.
  void expect(uint64_t run, const std::shared_ptr<save_job>& save);
  /// Receives a note of another process, as note() made it. Thread-safe; does not wait. A note for an unknown save, or
  /// with invalid contents, is ignored: the save then ends when its term does.
  void hear(std::string note);
  /// Fails all parts that have not arrived, because the term has ended. Thread-safe; does not wait.
  void give_up(const core::error& why);

  /// Returns the note with which a process reports the end of a part.
  static std::string note(uint64_t run, const part_result& part);

 private:
  void work();
  void take(const std::string& note);
  void abandon_all(const core::error& why);

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::string> notes_;
  /// Saves to which the received parts belong, by number of the run.
  std::map<uint64_t, std::weak_ptr<save_job>> saves_;
  std::optional<core::error> ended_;
  bool stops_ = false;
  std::thread thread_;  // thread that handles the parts; last member, because it uses the others
};

}  // namespace troupe::actors
