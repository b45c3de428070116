// An open file for positioned reads and writes, direct (past the page cache) or buffered. Owns the descriptor, the
// alignment that direct transfers require, and reserving and syncing of the file. Leaves concurrent transfers to
// `io_queue.hpp`, and names, folders and renames to the caller.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/error.hpp"

namespace troupe::storage {

/// How a file is opened: for which use, and what happens if the file exists or is missing.
enum class file_access : uint8_t {
  read,          ///< opens an existing file for reading
  read_regular,  ///< opens an existing file for reading; refuses a symbolic link, a pipe, a device
  read_write,    ///< opens an existing file for reading and writing
  create,        ///< creates a missing file, empties an existing one; for reading and writing
  create_new,    ///< creates the file; refuses any existing entry, a symbolic link included
};

enum class file_mode : uint8_t { buffered, direct };  ///< buffered: through the page cache; direct: past it

/// Alignment that transfers of a file require; both members are 1 for a buffered file.
struct transfer_alignment {
  uint32_t memory_bytes = 1;  ///< addresses of memory must be multiples of this number
  uint32_t offset_bytes = 1;  ///< offsets in the file and lengths must be multiples of this number
};

/// A handle to an open file. Copies share the descriptor, and the last copy closes it; a transfer in flight has a copy.
class file {
 public:
  static constexpr uint32_t alignment_bytes_max = 65536;  ///< largest supported alignment of direct I/O

  file() = default;  ///< refers to no file; only assignment and `is_open` may follow

  /// Opens `path`; new files get `permissions` minus the umask. Errors: `mismatch` exactly when the file system has no
  /// direct I/O, or needs a larger alignment than `alignment_bytes_max`, and the caller may open it buffered;
  /// `no_space`; `bad_input` if the path is at fault (missing, existing, not permitted); else `io` with the system's
  /// reason.
  static core::result<file> open(const std::filesystem::path& path, file_access access, file_mode mode,
                                 mode_t permissions = 0666);

  /// Opens `path` for direct I/O if the file system supports it, else buffered; mode() of the result returns which.
  /// Errors: those of `open` except `mismatch`.
  static core::result<file> open_best(const std::filesystem::path& path, file_access access, mode_t permissions = 0666);

  /// Opens this file again through a new descriptor, even if its name has changed. `access` must not create or empty
  /// the file.
  [[nodiscard]] core::result<file> reopened(file_access access, file_mode mode) const;

  /// Returns an empty file in memory, without a name in a file system, for simulations. `name` appears in errors.
  static core::result<file> in_memory(const std::string& name);

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  [[nodiscard]] const std::filesystem::path& path() const { return handle_->path; }
  [[nodiscard]] file_mode mode() const { return handle_->mode; }
  [[nodiscard]] transfer_alignment alignment() const { return handle_->alignment; }
  [[nodiscard]] int descriptor() const { return handle_->descriptor; }
  /// Returns a number that is different for each file that this process has opened; descriptor numbers are reused.
  [[nodiscard]] uint64_t identity() const { return handle_->identity; }

  [[nodiscard]] core::result<uint64_t> size_bytes() const;

  /// Reads from byte `offset` on until `into` is full or the file ends; returns the number of bytes read.
  [[nodiscard]] core::result<uint64_t> read_at(uint64_t offset, std::span<std::byte> into) const;

  /// Writes all of `from` at byte `offset`; the text of an error contains the number of bytes written.
  [[nodiscard]] core::result<void> write_at(uint64_t offset, std::span<const std::byte> from) const;

  /// Makes the file at least `bytes` long and reserves room for them. Returns false if the file system cannot reserve:
  /// the length is set, but later writes may still find the disk full. Error `no_space` if there is no room.
  [[nodiscard]] core::result<bool> preallocate(uint64_t bytes) const;

  /// Sets the length to exactly `bytes`, with zeros at the end if the file grows.
  [[nodiscard]] core::result<void> truncate(uint64_t bytes) const;

  /// Waits until content and length are on the device (fdatasync). Does not sync the file's name in its folder.
  [[nodiscard]] core::result<void> sync() const;

  /// Returns the error of operation `what`, which failed with `errno_value`; `no_space` for a full disk or quota, else
  /// `io`.
  [[nodiscard]] core::error failure(const std::string& what, int errno_value) const;

 private:
  struct handle {
    handle() = default;
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;
    ~handle();
    int descriptor = -1;
    uint64_t identity = 0;
    std::filesystem::path path;
    file_mode mode = file_mode::buffered;
    transfer_alignment alignment;
  };
  static file adopt(int descriptor, const std::filesystem::path& path, file_mode mode);

  std::shared_ptr<handle> handle_;
};

/// Returns `direct` or `buffered`.
std::string describe(file_mode mode);

}  // namespace troupe::storage
