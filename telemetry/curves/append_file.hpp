// Owns a file that grows by whole records. Records that a full disk does not accept wait in memory, up to a limit, so
// that a disk that is full for a while loses nothing. The file never ends with a torn record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::telemetry {

/// Limit of the bytes that wait in memory for a disk. A record that would exceed it is dropped and counted.
inline constexpr uint64_t waiting_bytes_limit = uint64_t{4} << 20;

class append_file {  ///< appends whole records to a file
 public:
  /// Creates a new file in an existing folder. An existing regular file `file` is renamed to NAME.previous, which
  /// replaces an earlier one.
  static core::result<append_file> create(const std::filesystem::path& file);
  /// Opens `file` to append to it; creates the file if it is missing.
  static core::result<append_file> go_on(const std::filesystem::path& file);

  append_file(append_file&& other) noexcept;
  append_file& operator=(append_file&&) = delete;
  append_file(const append_file&) = delete;
  append_file& operator=(const append_file&) = delete;
  ~append_file();

  /// Appends a record to the bytes in memory; `flush` writes them.
  void add(std::string_view record);

  /// Writes all waiting records to the file. After an error they still wait, and the file ends with the last complete
  /// flush. Records that went into a file that was removed are counted as dropped, and the error says so.
  core::result<void> flush();

  [[nodiscard]] bool is_empty() const { return written_ == 0 && waiting_.empty(); }
  [[nodiscard]] uint64_t num_dropped() const { return num_dropped_; }  ///< number of records that were dropped
  [[nodiscard]] bool is_removed() const { return is_removed_; }        ///< true: the open file has no name any more
  [[nodiscard]] uint64_t waiting_bytes() const { return waiting_.size(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  append_file(std::filesystem::path file, int fd) : path_(std::move(file)), fd_(fd) {}

  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t written_ = 0;
  std::string waiting_;
  uint64_t num_dropped_ = 0;
  bool is_removed_ = false;
};

}  // namespace troupe::telemetry
