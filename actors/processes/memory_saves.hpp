// Manages the saves in memory of a term (time with the same processes), as one process of the term sees them. They are
// copies of the states that outlive the process that wrote them. Owns their files and names; the supervisor keeps the
// memory (cluster/supervision.hpp), and save_job writes it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/processes/calls.hpp"
#include "actors/processes/machine_files.hpp"
#include "cluster/process.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/memory_files.hpp"

namespace troupe::actors {

/// Number of complete saves in memory that the supervisor keeps.
inline constexpr uint32_t saves_in_memory_kept = 2;

class memory_saves {
 public:
  /// Creates an object that offers files written in this process to the supervisor through `link`, which must outlive
  /// it.
  explicit memory_saves(cluster::process& link);

  /// In a term on several machines: makes this object copy each file that is written here to the process `copies_to`,
  /// unless that is this process, and read files of other machines. `elsewhere` transfers the files; `warn` receives
  /// failures of copies.
  void use(std::shared_ptr<machine_files> elsewhere, uint32_t copies_to, std::function<void(const std::string&)> warn);

  ~memory_saves();
  memory_saves(const memory_saves&) = delete;
  memory_saves& operator=(const memory_saves&) = delete;
  /// Sets the function that opens files of checkpoints on this machine's disk for other processes. Call before `serve`
  /// and `open`.
  void use_disk(machine_files::opener open_on_disk) { open_on_disk_ = std::move(open_on_disk); }
  /// Starts to serve the reads and copies that other processes request; open() does so, too.
  void serve();

  /// Returns the file system that save_job writes to.
  [[nodiscard]] storage::file_system& files() { return files_; }
  /// Returns the virtual folder that contains all saves in memory.
  static std::filesystem::path root() { return "/saves"; }

  /// Opens the save from which a term (time with the same processes) continues, as a source whose tensors are read
  /// through this object. `sent`: the save's files, which the supervisor has sent.
  core::result<formats::tensor_source> open(const std::string& folder,
                                            const std::map<std::string, cluster::file_in_memory>& sent);
  /// In a process without ranks: serves the files of the save that are on this machine, `sent`, to other processes.
  core::result<void> keep(const std::string& folder, const std::map<std::string, cluster::file_in_memory>& sent);

  /// In the leading process: commits the complete save in folder `written` under the name `folder`, and notifies the
  /// supervisor. Returns the changes of names that the other processes must make.
  core::result<std::vector<kept_name>> committed(const std::filesystem::path& folder,
                                                 const std::filesystem::path& written, uint64_t step);
  /// For processes that do not lead: prepare() makes the folder of a save, and follow() makes the changes of names that
  /// committed() has returned in the leading process.
  core::result<void> prepare(const std::filesystem::path& working);
  core::result<void> follow(const std::vector<kept_name>& names);

 private:
  core::result<void> remove_folder(const std::filesystem::path& path);
  core::result<void> adopt(const std::filesystem::path& path, const cluster::file_in_memory& file);

  void finished(const storage::shared_file& f);

  cluster::process& link_;
  std::shared_ptr<machine_files> elsewhere_;  ///< files of other machines; null if the term has one machine
  uint32_t copies_to_ = 0;
  machine_files::opener open_on_disk_;
  std::function<void(const std::string&)> warn_;
  storage::memory_files files_;
  std::vector<std::string> folders_;  ///< folders of committed saves, the oldest first
};

}  // namespace troupe::actors
