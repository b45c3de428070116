// Compares the CRC-32 of the entries of zip archives before bytes of them are used. Owns the record of entries that
// were compared; leaves the list of an archive's entries to torch/zip_reader.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/torch/zip_reader.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// The entries of the zip archives in one file, and which of them were compared. Every copy of a source and every
/// reader of it share one object, so that a process compares an entry once. Any number of threads may use it.
class file_sums {
 public:
  /// Returns a file that reads as `file` does and compares the CRC-32 of an entry when some of its bytes are read for
  /// the first time, which reads the whole entry. Entries whose writer stored no CRC-32 (0) are not compared. Returns
  /// `file` itself if it is not a zip archive. Errors: bad_input for an entry whose bytes do not match its CRC-32, with
  /// file, offset and name; io.
  static core::result<std::unique_ptr<input_file>> checked(const std::shared_ptr<file_sums>& sums,
                                                           std::unique_ptr<input_file> file,
                                                           const std::filesystem::path& path);
  /// Compares all entries that have a part in bytes [offset, offset + bytes) of the file and were not compared before.
  core::result<void> compare(const input_file& file, const std::filesystem::path& path, uint64_t offset,
                             uint64_t bytes);

 private:
  struct entry {
    explicit entry(const zip_entry& e) : of(e) {}

    zip_entry of;  ///< entry of an archive in the file; its `begin` counts from the first byte of the file
    std::mutex mutex{};
    bool is_compared = false;
  };
  /// Lists the entries of the archives, if no earlier call has, and compares the CRC-32 of each pickle, because a
  /// pickle describes all other entries of its archive.
  core::result<void> list(const input_file& file, const std::filesystem::path& path);
  static core::result<void> compare(const input_file& file, const std::filesystem::path& path, entry& e);

  std::mutex mutex_;
  bool is_listed_ = false;
  std::deque<entry> entries_;       ///< entries of all archives in the file that have a CRC-32, ascending by `begin`
  std::vector<zip_list> archives_;  ///< lists of the file's archives, which own the names of the entries in entries_
};

}  // namespace troupe::checkpoint
