// A file that grows by whole records. A disk that is full for a while costs nothing: what could not be written waits in
// memory, up to a limit, and no torn record is left at the end of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::telemetry {

/// Bytes that wait for a disk; records beyond it are dropped and counted.
inline constexpr uint64_t waiting_bytes_limit = uint64_t{4} << 20;

class append_file {  ///< a file that only grows
 public:
  /// A new file. One of that name becomes NAME.previous, over an earlier one. The folder must exist.
  static core::result<append_file> create(const std::filesystem::path& file);
  /// Goes on behind what a file of that name holds; a new one where there is none.
  static core::result<append_file> go_on(const std::filesystem::path& file);

  append_file(append_file&& other) noexcept;
  append_file& operator=(append_file&&) = delete;
  append_file(const append_file&) = delete;
  append_file& operator=(const append_file&) = delete;
  ~append_file();

  /// Takes a record; nothing is written before `flush`.
  void add(std::string_view record);

  /// Hands what waits to the system. After an error it still waits, and the file ends with the last whole flush.
  core::result<void> flush();

  [[nodiscard]] bool is_empty() const { return written_ == 0 && waiting_.empty(); }
  [[nodiscard]] uint64_t num_dropped() const { return num_dropped_; }  ///< records
  [[nodiscard]] uint64_t waiting_bytes() const { return waiting_.size(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  append_file(std::filesystem::path file, int fd) : path_(std::move(file)), fd_(fd) {}

  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t written_ = 0;
  std::string waiting_;
  uint64_t num_dropped_ = 0;
};

}  // namespace troupe::telemetry
