// Files of saves in memory among the machines of a term: a file that was written here gets a copy on another machine,
// and what lies elsewhere is read from there by range. Owns the thread that serves others, and the names of its
// transfers; files and their names are memory_saves.hpp's.
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
  /// Notes that begin with this are for `hear`, as fabric::note_switch passes them.
  static constexpr uint64_t notes = uint64_t{1} << 62;

  /// `mover` moves the bytes of the process in `place`.
  machine_files(std::shared_ptr<fabric::byte_mover> mover, uint32_t place);
  ~machine_files();
  machine_files(const machine_files&) = delete;
  machine_files& operator=(const machine_files&) = delete;

  /// Opens what others read under names that begin with this.
  static constexpr std::string_view disk_mark = "disk:";
  using opener = std::function<core::result<std::unique_ptr<checkpoint::input_file>>(const std::string& path)>;

  /// From now on copies for others go to `files`, and what others read is read there, or by `open_on_disk` where they
  /// ask for that. Requests have waited for it.
  void serve(checkpoint::file_system& files, opener open_on_disk = {});
  /// Whether the calling thread is the one that serves others.
  [[nodiscard]] bool is_serving() const { return std::this_thread::get_id() == thread_.get_id(); }
  /// A note of another process. Any thread; waits for nothing.
  void hear(uint32_t from, std::string_view text);

  /// Everything that waits for the process at `place` ends, and whatever is asked of it later.
  void lose(uint32_t place, const core::error& why);
  /// Everything that waits ends; the mover was stopped, or is. Waits for nothing.
  void stop(const core::error& why);
  /// Stopped, and its thread touches no files any more.
  void end();

  /// The file `path` of `files` gets a copy in the process at `to`. Waits for it. Errors: peer_lost; the other's.
  core::result<void> copy(uint32_t to, checkpoint::file_system& files, const std::filesystem::path& path);
  /// How long a file in the process at `from` is. Waits for it. Errors: as above.
  core::result<uint64_t> size(uint32_t from, const std::string& path);
  /// Fills `out` from a file in the process at `from`. Waits for it. Errors: as above.
  core::result<void> read(uint32_t from, const std::string& path, uint64_t offset_bytes, std::span<std::byte> out);

 private:
  struct awaited {  ///< a reply
    uint32_t from = 0;
    std::optional<core::result<void>> end;
    uint64_t bytes = 0;  ///< of the file
  };

  void work();
  core::result<void> take_copy(uint32_t from, uint64_t number, const std::string& path, uint64_t bytes);
  core::result<void> give(uint32_t to, uint64_t number, const std::string& path, uint64_t first, uint64_t bytes);
  uint64_t ask(uint32_t whom, bool reads, const std::string& path, uint64_t first, uint64_t bytes);
  void answer(uint32_t whom, uint64_t number, const core::result<void>& how, uint64_t bytes = 0);
  /// Gives the file's size where it was asked for.
  core::result<uint64_t> wait_for(uint64_t number);

  std::shared_ptr<fabric::byte_mover> mover_;
  uint32_t place_;
  std::mutex mutex_;
  std::condition_variable came_;
  checkpoint::file_system* files_ = nullptr;
  opener open_on_disk_;
  std::deque<std::pair<uint32_t, std::string>> requests_;
  std::map<uint64_t, awaited> awaited_;   ///< by number
  std::map<uint32_t, core::error> lost_;  ///< by place
  uint64_t number_ = 0;
  std::optional<core::error> stopped_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe::actors
