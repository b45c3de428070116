// Saves that lie in memory and outlive the process that wrote them: one process's view of those of a term. Owns their
// files and names; the supervisor keeps the memory (cluster/supervision.hpp), save_job writes it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/processes/calls.hpp"
#include "actors/processes/machine_files.hpp"
#include "checkpoint/files/memory_files.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "cluster/process.hpp"

namespace troupe::actors {

/// Whole saves that stay, as the supervisor keeps them.
inline constexpr uint32_t saves_in_memory_kept = 2;

class memory_saves {
 public:
  /// Files that are written here are offered through `link`, which outlives this.
  explicit memory_saves(cluster::process& link);

  /// Of a term on several machines: files that are written here get a copy in the process `copies_to`, and those that
  /// lie elsewhere are read from there; none are copied where that is this process. `warn` is told of copies that fail.
  void use(std::shared_ptr<machine_files> elsewhere, uint32_t copies_to, std::function<void(const std::string&)> warn);

  ~memory_saves();
  memory_saves(const memory_saves&) = delete;
  memory_saves& operator=(const memory_saves&) = delete;
  /// Opens files of checkpoints on this machine's disk that others ask for. Before `serve` and `open`.
  void use_disk(machine_files::opener open_on_disk) { open_on_disk_ = std::move(open_on_disk); }
  /// From now on others may read and write here; `open` does the same.
  void serve();

  /// Where save_job writes.
  [[nodiscard]] checkpoint::file_system& files() { return files_; }
  /// The folder of all of them.
  static std::filesystem::path root() { return "/saves"; }

  /// The save that a term continues from, whose files the supervisor has sent. Its tensors are read from here.
  core::result<checkpoint::tensor_source> open(const std::string& folder,
                                               const std::map<std::string, cluster::file_in_memory>& sent);
  /// Of a process without ranks: others may read those files of the save that lie on this machine.
  core::result<void> keep(const std::string& folder, const std::map<std::string, cluster::file_in_memory>& sent);

  /// Of the process that leads: `written` is whole and committed as `folder`. Tells the supervisor; gives what the
  /// others have to do with their names.
  core::result<std::vector<kept_name>> committed(const std::filesystem::path& folder,
                                                 const std::filesystem::path& written, uint64_t step);
  /// Of the others: their files have a folder to go to, and the same names as at the process that leads.
  core::result<void> prepare(const std::filesystem::path& working);
  core::result<void> follow(const std::vector<kept_name>& names);

 private:
  core::result<void> remove_folder(const std::filesystem::path& path);
  core::result<void> adopt(const std::filesystem::path& path, const cluster::file_in_memory& file);

  void finished(const checkpoint::shared_file& f);

  cluster::process& link_;
  std::shared_ptr<machine_files> elsewhere_;  ///< null: one machine
  uint32_t copies_to_ = 0;
  machine_files::opener open_on_disk_;
  std::function<void(const std::string&)> warn_;
  checkpoint::memory_files files_;
  std::vector<std::string> folders_;  ///< of committed saves, the oldest first
};

}  // namespace troupe::actors
