// Transfers files of saves in memory between the machines of a term (a time in which the processes of a job stay the
// same): copies files that this process wrote to another machine, and reads ranges of files of other machines. Owns the
// thread that serves other machines, and the names of its transfers; memory_saves.hpp owns files and their names.
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

#include "fabric/wire/byte_mover.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::actors {

class machine_files {
 public:
  /// Number by which fabric::note_switch recognises the notes (short messages) that hear() receives; also the first
  /// bits of the names of transfers.
  static constexpr uint64_t notes = uint64_t{1} << 62;

  /// `mover` sends and receives bytes over the network. `place`: number of this process in the job.
  machine_files(std::shared_ptr<fabric::byte_mover> mover, uint32_t place);
  ~machine_files();
  machine_files(const machine_files&) = delete;
  machine_files& operator=(const machine_files&) = delete;

  /// Prefix of the names of files that are not in memory but on this machine's disk; the function `open_on_disk` of
  /// serve() opens them for other processes.
  static constexpr std::string_view disk_mark = "disk:";
  using opener = std::function<core::result<std::unique_ptr<storage::input_file>>(const std::string& path)>;

  /// Starts to serve requests of other processes: copies that they send are written to `files`, and files that they
  /// read are in `files`, or, for names with disk_mark, opened by `open_on_disk`. Requests that arrived earlier have
  /// waited for this call.
  void serve(storage::file_system& files, opener open_on_disk = {});
  /// True on the thread that serves other processes.
  [[nodiscard]] bool is_serving() const { return std::this_thread::get_id() == thread_.get_id(); }
  /// Handles a message (note) that the process in place `from` has sent. Thread-safe; returns without waiting.
  void hear(uint32_t from, std::string_view text);

  /// Ends all waits for the process in place `place` with error `why`; later requests to it fail, too.
  void lose(uint32_t place, const core::error& why);
  /// Ends all waits with error `why`, because the byte mover has been stopped or is being stopped. Does not wait.
  void stop(const core::error& why);
  /// Waits until the thread is stopped and accesses no files any more.
  void end();

  /// Copies the file `path` of `files` to the process with number `to`, and waits until that process has stored it.
  /// Errors: peer_lost; the error that the other process reports.
  core::result<void> copy(uint32_t to, storage::file_system& files, const std::filesystem::path& path);
  /// Returns the size in bytes of the file `path` of the process with number `from`; waits for the reply. Errors: those
  /// of copy().
  core::result<uint64_t> size(uint32_t from, const std::string& path);
  /// Fills `out` with bytes of the file `path` of the process with number `from`, from `offset_bytes` on, and waits for
  /// them. Errors: those of copy().
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
  /// Waits for the reply to request `number`; returns the size of the file if that was requested.
  core::result<uint64_t> wait_for(uint64_t number);

  std::shared_ptr<fabric::byte_mover> mover_;
  uint32_t place_;
  std::mutex mutex_;
  std::condition_variable came_;
  storage::file_system* files_ = nullptr;
  opener open_on_disk_;
  std::deque<std::pair<uint32_t, std::string>> requests_;
  std::map<uint64_t, awaited> awaited_;   ///< this process's unanswered requests, by number
  std::map<uint32_t, core::error> lost_;  ///< [number of a lost process]: error of the link to it
  uint64_t number_ = 0;
  std::optional<core::error> stopped_;
  std::thread thread_;  // serves requests of other processes; last member, because it uses all other members
};

}  // namespace troupe::actors
