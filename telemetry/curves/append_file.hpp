// Owns a file to which whole records are appended: rows of a curve, TensorBoard events. While the disk is full, new
// records stay in memory, up to waiting_bytes_limit, and are written later. A partly written record is truncated away.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::telemetry {

/// Maximum bytes of unwritten records that one append_file keeps in memory. append_file::add drops a record that would
/// exceed the maximum, and counts it in num_dropped().
inline constexpr uint64_t waiting_bytes_limit = uint64_t{4} << 20;

class append_file {  ///< appends whole records to a file
 public:
  /// Creates a new file in an existing folder. If a regular file `file` exists, it is first renamed to NAME.previous
  /// (NAME: its file name) or, if there is such a file, to NAME.previous.N with the first free N from 2 on.
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

  /// Writes all records that are in memory to the file. After an error these records are still in memory, and the
  /// file ends with the last complete flush. If the file was deleted during the run, its records are lost: each later
  /// flush counts as one dropped record and returns an error about the deletion.
  core::result<void> flush();

  [[nodiscard]] bool is_empty() const { return written_ == 0 && waiting_.empty(); }
  [[nodiscard]] uint64_t num_dropped() const { return num_dropped_; }  ///< number of records that were dropped
  [[nodiscard]] bool is_removed() const { return is_removed_; }        ///< true: the file was deleted while it was open
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
