// Transfers files of saves in memory between the machines of a term: a file that was written here is copied to another
// machine, and files of other machines are read by range. Owns the thread that serves other machines, and the names of
// its transfers; memory_saves.hpp owns files and their names.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "checkpoint/files/file_system.hpp"
#include "fabric/wire/byte_mover.hpp"

namespace troupe::actors {

class machine_files {
 public:
  /// Number of the notes that `hear` receives, by which fabric::note_switch distributes notes; also the first bits of
  /// the names of transfers.
  static constexpr uint64_t notes = uint64_t{1} << 62;

  /// `mover`: transfers bytes for the process with number `place`, which is this one.
  machine_files(std::shared_ptr<fabric::byte_mover> mover, uint32_t place);
  ~machine_files();
  machine_files(const machine_files&) = delete;
  machine_files& operator=(const machine_files&) = delete;

  /// Prefix of names that other processes read through the `opener`.
  static constexpr std::string_view disk_mark = "disk:";
  using opener = std::function<core::result<std::unique_ptr<checkpoint::input_file>>(const std::string& path)>;

  /// Starts to serve other processes: their copies are written to `files`, and their reads are served from `files`, or
  /// through `open_on_disk` for names with disk_mark. Earlier requests have waited for this call.
  void serve(checkpoint::file_system& files, opener open_on_disk = {});
  /// True on the thread that serves other processes.
  [[nodiscard]] bool is_serving() const { return std::this_thread::get_id() == thread_.get_id(); }
  /// Handles a note from the process `from`. Thread-safe; returns without waiting.
  void hear(uint32_t from, std::string_view text);

  /// Fails all waits for the process at `place`, and all later requests to it.
  void lose(uint32_t place, const core::error& why);
  /// Fails all waits; the mover has been stopped, or is being stopped. Does not wait.
  void stop(const core::error& why);
  /// Waits until the thread is stopped and accesses no files any more.
  void end();

  /// Copies the file `path` of `files` to the process at `to`, and waits for the copy. Errors: peer_lost; the error
  /// that the other process reports.
  core::result<void> copy(uint32_t to, checkpoint::file_system& files, const std::filesystem::path& path);
  /// Returns the size of a file in the process at `from`; waits for the reply. Errors: those of copy().
  core::result<uint64_t> size(uint32_t from, const std::string& path);
  /// Fills `out` from a file in the process at `from`, and waits for it. Errors: those of copy().
  core::result<void> read(uint32_t from, const std::string& path, uint64_t offset_bytes, std::span<std::byte> out);

 private:
  struct awaited {  ///< a request of this process whose reply has not arrived
    uint32_t from = 0;
    std::optional<core::result<void>> end;
    uint64_t bytes = 0;  ///< size of the requested file in bytes
  };

  void work();
  core::result<void> take_copy(uint32_t from, uint64_t number, const std::string& path, uint64_t bytes);
  core::result<void> give(uint32_t to, uint64_t number, const std::string& path, uint64_t first, uint64_t bytes);
  uint64_t ask(uint32_t whom, bool reads, const std::string& path, uint64_t first, uint64_t bytes);
  void answer(uint32_t whom, uint64_t number, const core::result<void>& how, uint64_t bytes = 0);
  /// Waits for a reply; returns the file's size if the request was for the size.
  core::result<uint64_t> wait_for(uint64_t number);

  std::shared_ptr<fabric::byte_mover> mover_;
  uint32_t place_;
  std::mutex mutex_;
  std::condition_variable came_;
  checkpoint::file_system* files_ = nullptr;
  opener open_on_disk_;
  std::deque<std::pair<uint32_t, std::string>> requests_;
  std::map<uint64_t, awaited> awaited_;   ///< replies for which callers wait, by number of the request
  std::map<uint32_t, core::error> lost_;  ///< errors of the links to lost processes, by place of the process
  uint64_t number_ = 0;
  std::optional<core::error> stopped_;
  std::thread thread_;  // thread that serves the requests of other processes; last member, because it uses the others
};

}  // namespace troupe::actors
