// Compares the CRC-32 of the entries of zip archives before bytes of them are used. Owns the record of entries that
// were compared; the code that opens an archive hands its list of entries on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/error.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

class torch_archive;
struct zip_entry;

/// The entries of the zip archives in one file, and which of them were compared. Every copy of a source and every
/// reader of it share one object, so that a process compares an entry once. Any number of threads may use it, except
/// for add().
class file_sums {
 public:
  /// Adds the entries of an archive that is open in the file, without those whose writer stored no CRC-32 (0). Nothing
  /// is added for a legacy stream, and an archive that was added before is not added again.
  void add(const torch_archive& archive);
  /// Returns a file that reads as `file` does and compares the CRC-32 of an entry when some of its bytes are read for
  /// the first time, which reads the whole entry. Compares the CRC-32 of each pickle first, because a pickle describes
  /// all other entries of its archive. Returns `file` itself if no archive was added. Errors: bad_input for an entry
  /// whose bytes do not match its CRC-32, with file, offset and name; io.
  static core::result<std::unique_ptr<storage::input_file>> checked(const std::shared_ptr<file_sums>& sums,
                                                                    std::unique_ptr<storage::input_file> file,
                                                                    const std::filesystem::path& path);
  /// Compares all entries that have a part in bytes [offset, offset + bytes) of the file and were not compared before.
  core::result<void> compare(const storage::input_file& file, const std::filesystem::path& path, uint64_t offset,
                             uint64_t bytes);

 private:
  struct entry {
    explicit entry(std::shared_ptr<const zip_entry> e) : of(std::move(e)) {}

    std::shared_ptr<const zip_entry> of;  ///< shares the ownership of its archive's list
    std::mutex mutex{};
    bool is_compared = false;
  };
  using entry_map = std::map<uint64_t, entry>;

  core::result<void> compare_pickles(const storage::input_file& file, const std::filesystem::path& path);
  static core::result<void> compare(const storage::input_file& file, const std::filesystem::path& path,
                                    entry_map::value_type& at);

  entry_map entries_;  ///< [offset of an entry's first byte in the file]: the entry
  std::mutex mutex_;
  bool has_compared_pickles_ = false;
};

}  // namespace troupe::formats
