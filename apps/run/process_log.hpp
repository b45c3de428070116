// What the processes of a job say, in the run's folder: `logs/process<place>.log` of each, and `logs/all.log` of all of
// them in the order in which it was said. Owns the files and a line's form; what is worth a line is the caller's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

namespace troupe::apps {

class process_log {
 public:
  /// `who`: "process 2", "supervisor". Nothing is written where `output`, the run's folder, is empty.
  process_log(const std::filesystem::path& output, std::string who);
  ~process_log();
  process_log(const process_log&) = delete;
  process_log& operator=(const process_log&) = delete;

  /// Any thread. Each line is one write, so those of several processes stay whole. What cannot be written is left out:
  /// a log ends no run.
  void line(const std::string& text);
  [[nodiscard]] bool has_files() const { return !folder_.empty(); }

 private:
  [[nodiscard]] int opened(const std::string& name) const;

  std::filesystem::path folder_;
  std::string who_;
  std::mutex mutex_;
  bool is_open_ = false;  ///< or was tried to be
  int own_ = -1, all_ = -1;
};

}  // namespace troupe::apps
