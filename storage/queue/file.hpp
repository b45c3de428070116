// An open file for positioned reads and writes, direct (past the page cache) or buffered. Owns the descriptor, the
// alignment that direct transfers need, space and durability of the content. Leaves many transfers at once to
// `io_queue.hpp`, and names, folders and renames to whoever calls.
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

/// What an opened file is for, and what becomes of one that is there or missing.
enum class file_access : uint8_t {
  read,          ///< an existing file, to be read
  read_regular,  ///< the same; refused where it is a symbolic link, a pipe, a device
  read_write,    ///< an existing file, to be read and written
  create,        ///< made where it is missing, emptied where it is there; read and written
  create_new,    ///< made; refused where anything is there, a symbolic link included
};

enum class file_mode : uint8_t { buffered, direct };  ///< through the page cache, or past it

/// Units that direct transfers of a file must be multiples of; 1 and 1 of a buffered one.
struct transfer_alignment {
  uint32_t memory_bytes = 1;  ///< addresses
  uint32_t offset_bytes = 1;  ///< offsets in the file and lengths
};

/// A handle to an open file. Copies share it; the last one closes it, so a transfer in flight keeps its file open.
class file {
 public:
  static constexpr uint32_t alignment_bytes_max = 65536;  ///< a file system that wants more is read through its cache

  file() = default;  ///< no file; only assignment and `is_open` may follow

  /// Opens `path`; new files get `permissions` less the umask.
  /// Errors  `mismatch` exactly when the file system has no direct I/O, or wants a larger alignment than
  ///         `alignment_bytes_max`: the caller may open it buffered; `no_space`; `bad_input` where the path is at fault
  ///         (missing, there already, not permitted); else `io` with the system's reason.
  static core::result<file> open(const std::filesystem::path& path, file_access access, file_mode mode,
                                 mode_t permissions = 0666);

  /// As `open`, direct where the file system does that and buffered elsewhere; `mode` says which it became.
  static core::result<file> open_best(const std::filesystem::path& path, file_access access, mode_t permissions = 0666);

  /// The same file, whatever became of its name, through a descriptor of its own; `access` is to read or to write.
  [[nodiscard]] core::result<file> reopened(file_access access, file_mode mode) const;

  /// An empty file that has no name and no disk: for simulations. `name` appears in errors.
  static core::result<file> in_memory(const std::string& name);

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  [[nodiscard]] const std::filesystem::path& path() const { return handle_->path; }
  [[nodiscard]] file_mode mode() const { return handle_->mode; }
  [[nodiscard]] transfer_alignment alignment() const { return handle_->alignment; }
  [[nodiscard]] int descriptor() const { return handle_->descriptor; }
  /// Differs for every file this process ever opened, while descriptors are used again.
  [[nodiscard]] uint64_t identity() const { return handle_->identity; }

  [[nodiscard]] core::result<uint64_t> size_bytes() const;

  /// Reads until `into` is full or the file ends; gives the bytes read.
  [[nodiscard]] core::result<uint64_t> read_at(uint64_t offset, std::span<std::byte> into) const;

  /// Writes all of `from`; on failure the text says how much arrived.
  [[nodiscard]] core::result<void> write_at(uint64_t offset, std::span<const std::byte> from) const;

  /// Makes the file at least `bytes` long with room for them. False where the file system cannot reserve: the length
  /// is set and later writes may still find the disk full. Error `no_space` where there is no room.
  [[nodiscard]] core::result<bool> preallocate(uint64_t bytes) const;

  [[nodiscard]] core::result<void> truncate(uint64_t bytes) const;  ///< exactly `bytes` long; zeros where it grew

  /// Returns when content and length are on the device (fdatasync). The name in the folder is the caller's to sync.
  [[nodiscard]] core::result<void> sync() const;

  /// The error of operation `what`, which ended with `errno_value`; `no_space` for a full disk or quota, else `io`.
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

/// `direct` or `buffered`.
std::string describe(file_mode mode);

}  // namespace troupe::storage
