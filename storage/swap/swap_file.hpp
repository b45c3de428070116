// One scratch file of a run and the digests of its pages. Owns the record of what was written, in the form of digests,
// and plain access between steps; leaves many transfers at once to `swap_queue.hpp`, names and space to
// `swap_space.hpp`.
//
// Error detection: every page has a digest in memory (8 bytes for 4096), computed before the page is written and
// compared with the bytes read; a page that was never written counts as zeros, the content of a new file. After a lost
// or torn write, a flipped byte or a truncation of the file, the next read fails with the file and the page, and
// returns no wrong byte. Without checksums only errors that the system reports are detected.
//
// The retry policy, here and in `swap_queue`: a block that failed (an error of the device, a digest that differs, a
// file that ends early) is tried once more, then the access fails. A full disk and a cancellation are not retried.
// Short and interrupted transfers are no failures: they continue (`transfer.hpp`). The content after a failed write is
// unknown: the next read refuses its pages unless they arrived whole; they are valid again once written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/queue/file.hpp"
#include "storage/swap/page_digest.hpp"

namespace troupe::storage {

inline constexpr unsigned swap_tries_max = 2;  ///< attempts for one block before it fails

/// A swap file. Many threads may use it at once on disjoint pages. The plan orders a read after the write of its pages.
class swap_file {
 public:
  static constexpr uint64_t bounce_bytes = uint64_t{1} << 20;  ///< largest copy of plain access

  /// Uses `on`, which holds `bytes` zeros, a multiple of `swap_page_bytes`. `swap_space::create` makes the files of a
  /// run.
  swap_file(file on, uint64_t bytes, bool checksums);
  swap_file(const swap_file&) = delete;
  swap_file& operator=(const swap_file&) = delete;

  /// Returns a file of zeros without a name and a disk, for simulations. Error `limit` if there is no memory.
  static core::result<std::shared_ptr<swap_file>> in_memory(const std::string& name, uint64_t bytes,
                                                            bool checksums = true);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const file& handle() const { return on_; }
  [[nodiscard]] bool checksums() const { return !digests_.empty(); }
  /// Bytes of memory for the digests.
  [[nodiscard]] uint64_t digest_bytes() const { return digests_.size() * sizeof(uint64_t); }

  /// Reads or writes on the calling thread: any offset, length and address. Edge pages are read, changed and written
  /// back, so two threads must not share one. For access between steps; a step's own transfers use a `swap_queue`.
  /// Errors: `bad_input` beyond the end of the file; `io`, `no_space` with file and offset.
  [[nodiscard]] core::result<void> read(uint64_t offset, std::span<std::byte> into) const;
  core::result<void> write(uint64_t offset, std::span<const std::byte> from);  ///< writes; rules and errors of `read`

  /// Fails with `bad_input` and the file's name if the range is not within the file. `what` is `read` or `write`.
  [[nodiscard]] core::result<void> check_range(const char* what, uint64_t offset, uint64_t length) const;

  /// Computes the digests of `pages`, the whole pages that a queue is about to write at `offset`. Does nothing without
  /// checksums.
  void take_digests(uint64_t offset, std::span<const std::byte> pages);
  /// Compares `pages`, which a queue has read at `offset`, with the digests of what was written. Error `io` with file
  /// and offset of the first page that differs.
  [[nodiscard]] core::result<void> check_digests(uint64_t offset, std::span<const std::byte> pages) const;

  /// Returns the error of a read at `offset` that reached the end of the file.
  [[nodiscard]] core::error ends_early(uint64_t offset, uint64_t wanted, uint64_t got) const;

 private:
  core::result<void> read_pages(uint64_t offset, std::span<std::byte> into) const;
  core::result<void> write_pages(uint64_t offset, std::span<const std::byte> from);

  file on_;
  uint64_t bytes_;
  std::vector<uint64_t> digests_;  // [page]; empty without checksums
};

}  // namespace troupe::storage
