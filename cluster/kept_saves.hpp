// The saves in memory that a supervisor or an agent keeps for processes that may end: files by their paths, and which
// machines they lie on. Owns the descriptors of those that lie here; what is written into them is the session's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/descriptor.hpp"

namespace troupe::cluster {

/// Whole saves that are kept.
inline constexpr size_t kept_saves_max = 2;
/// Folders of saves that are not whole yet, of which files are kept: one is being written, copies of the next may come
/// before the word that it is whole, and a save that fails is never heard of again.
inline constexpr size_t begun_saves_max = 3;

class kept_saves {  ///< of one job, on one machine; one thread
 public:
  struct file {
    uint64_t bytes = 0;
    std::vector<shared_descriptor> with;  ///< where it lies on this machine
    std::vector<uint32_t> machines;       ///< on which it lies
  };

  /// A file that a process of `machine` has written, or has a copy of. Of too many saves that have begun, the files of
  /// the oldest go.
  void add(const std::string& path, uint64_t bytes, std::vector<shared_descriptor> with, uint32_t machine);
  /// The files under `written` are whole, and are those of `folder` from now on. The oldest save too many goes, and
  /// what was begun in vain. Files of the next save may have been told of already: they come another way.
  void whole(const std::string& folder, const std::string& written);
  /// What lay on `machine` is lost.
  void lose(uint32_t machine);

  /// The folder of the newest save of which every file lies on one of `machines`; empty: there is none.
  [[nodiscard]] std::string newest(const std::vector<uint32_t>& machines) const;
  /// The same wherever it lies, and though it is lost.
  [[nodiscard]] std::string newest() const { return saves_.empty() ? std::string() : saves_.back(); }
  /// The path of a file of this save that lies on none of `machines`; empty: there is none.
  [[nodiscard]] std::string lost_file(std::string_view folder, const std::vector<uint32_t>& machines) const;
  /// By path.
  [[nodiscard]] std::map<std::string, const file*> of(std::string_view folder) const;

 private:
  void forget(std::string_view folder);

  std::map<std::string, file> files_;
  std::vector<std::string> saves_;  ///< folders of whole ones, the newest last
  struct begun {
    std::string folder;
    uint64_t begun_at = 0;  ///< how many saves had been whole when a file of it was first told of
  };
  std::vector<begun> begun_;                                  ///< of files of no whole save, the newest last
  std::vector<std::pair<std::string, std::string>> written_;  ///< where they were written, and their folder
  uint64_t num_whole_ = 0;
};

}  // namespace troupe::cluster
