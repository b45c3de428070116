// Writes the messages of a job's processes into the run's folder: `logs/process<place>.log` for each process, and
// `logs/all.log` for all processes in order of time. Owns the files and the form of a line. Leaves the choice of
// messages to the caller.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>

namespace troupe::apps {

class process_log {
 public:
  /// Stores its arguments. `who` is the process's name: "process 2", "supervisor". Nothing is written if `output`, the
  /// run's folder, is empty.
  process_log(const std::filesystem::path& output, std::string who);
  ~process_log();
  process_log(const process_log&) = delete;
  process_log& operator=(const process_log&) = delete;

  /// Writes a line; may be called on any thread. Each line is one write, so that lines of several processes stay whole.
  /// Ignores a failed write, because a log must not end a run.
  void line(const std::string& text);
  [[nodiscard]] bool has_files() const { return !folder_.empty(); }

 private:
  [[nodiscard]] int opened(const std::string& name) const;

  std::filesystem::path folder_;
  std::string who_;
  std::mutex mutex_;
  bool is_open_ = false;  ///< true once opening the files was tried
  int own_ = -1, all_ = -1;
};

}  // namespace troupe::apps
