// Takes the parts of saves that other processes write, on a thread of its own: the last part commits, which waits for a
// disk, and whoever hears of parts must not. Owns the thread and which save a part belongs to.
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
  /// What was not taken never comes: saves that wait for it are abandoned.
  ~part_taker();
  part_taker(const part_taker&) = delete;
  part_taker& operator=(const part_taker&) = delete;

  /// From now on parts of run `run` are of this save.
  void expect(uint64_t run, const std::shared_ptr<save_job>& save);
  /// A note that a process sent, as note() made it. Any thread; waits for nothing. What is of no save that is known is
  /// passed over, what is no note as well: the save then ends when its term does.
  void hear(std::string note);
  /// The term has ended: parts that have not come never will. Any thread; waits for nothing.
  void give_up(const core::error& why);

  /// A part's end as another process tells it.
  static std::string note(uint64_t run, const part_result& part);

 private:
  void work();
  void take(const std::string& note);
  void abandon_all(const core::error& why);

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::string> notes_;
  std::map<uint64_t, std::weak_ptr<save_job>> saves_;  ///< by run
  std::optional<core::error> ended_;
  bool stops_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe::actors
