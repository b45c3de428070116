// Passes the results of saves' parts, which other processes have written, to the save_job of each save. Does so on a
// thread of its own, because the last part commits the save, which blocks on the disk, and the thread that receives
// messages must not block. Owns the thread and the assignment of parts to saves.
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
  /// Ends all saves that still wait for parts of other processes, as failed.
  ~part_taker();
  part_taker(const part_taker&) = delete;
  part_taker& operator=(const part_taker&) = delete;

  /// Makes `save` the receiver of the parts that other processes report for the run with number `run`.
  void expect(uint64_t run, const std::shared_ptr<save_job>& save);
  /// Receives the message `note` of another process, which note() has made. Thread-safe; does not wait. A message for
  /// an unknown save or with invalid contents is ignored: the save then ends, at the latest, with its term.
  void hear(std::string note);
  /// Makes all parts that have not arrived fail with `why`, because the term (time with the same processes) has ended.
  /// Thread-safe; does not wait.
  void give_up(const core::error& why);

  /// Returns the message by which a process reports the end of its part of a save in run number `run`.
  static std::string note(uint64_t run, const part_result& part);

 private:
  void work();
  void take(const std::string& note);
  void abandon_all(const core::error& why);

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::string> notes_;
  /// [number of the run]: save to which the parts of that run belong
  std::map<uint64_t, std::weak_ptr<save_job>> saves_;
  std::optional<core::error> ended_;
  bool stops_ = false;
  std::thread thread_;  // handles the parts; last member, because it uses all other members
};

}  // namespace troupe::actors
