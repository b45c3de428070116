// Stores which saves in memory a supervisor or an agent keeps for processes that may end: files by path, and the
// machines that hold them. Owns the descriptors of the files on this machine; leaves their content to the session.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/descriptor.hpp"

namespace troupe::cluster {

/// Number of complete saves in memory whose files are kept; an older one is dropped.
inline constexpr size_t kept_saves_max = 2;
/// Number of incomplete saves of which files are kept. One is being written; copies of the next may come before the
/// message that the current one is complete; and a failed save is never reported.
inline constexpr size_t begun_saves_max = 3;

class kept_saves {  ///< lists the saves in memory of one job, and the files that this machine holds; used by one thread
 public:
  struct file {
    uint64_t bytes = 0;
    std::vector<shared_descriptor> with;  ///< descriptors of the file in memory on this machine
    std::vector<uint32_t> machines;       ///< numbers of the machines that hold the file
  };

  /// Adds a file that a process of `machine` has written, or has a copy of. If too many saves are incomplete, the files
  /// of the oldest are dropped.
  void add(const std::string& path, uint64_t bytes, std::vector<shared_descriptor> with, uint32_t machine);
  /// Marks the files under `written` as complete; they belong to `folder` from now on. Drops the oldest save beyond the
  /// limit and incomplete saves that were abandoned. Files of the next save may have been added already, because they
  /// come over other links.
  void whole(const std::string& folder, const std::string& written);
  /// Records that `machine` is lost: no file is on it any more.
  void lose(uint32_t machine);

  /// Returns the folder of the newest save of which every file is on one of `machines`; empty if there is none.
  [[nodiscard]] std::string newest(const std::vector<uint32_t>& machines) const;
  /// Returns the folder of the newest complete save, even if some of its files are lost; empty if there is none.
  [[nodiscard]] std::string newest() const { return saves_.empty() ? std::string() : saves_.back(); }
  /// Returns the path of one file of the save in `folder` that none of `machines` holds; empty if they hold all files.
  [[nodiscard]] std::string lost_file(std::string_view folder, const std::vector<uint32_t>& machines) const;
  /// Returns [path]: file of the save in `folder`.
  [[nodiscard]] std::map<std::string, const file*> of(std::string_view folder) const;

 private:
  void forget(std::string_view folder);

  std::map<std::string, file> files_;
  std::vector<std::string> saves_;  ///< folders of complete saves, the newest last
  struct begun {
    std::string folder;
    uint64_t begun_at = 0;  ///< number of saves of the job that were complete when this save's first file was added
  };
  std::vector<begun> begun_;  ///< folders of incomplete saves, the newest last
  /// Pairs, one for each complete save: the folder in which its files were written, and its final folder.
  std::vector<std::pair<std::string, std::string>> written_;
  uint64_t num_whole_ = 0;
};

}  // namespace troupe::cluster
