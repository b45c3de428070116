// One scratch file of a run and the digests of its pages. Owns the digests of the written pages, and synchronous access
// between steps; leaves concurrent transfers to `swap_queue.hpp`, names and space to `swap_space.hpp`.
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

inline constexpr unsigned swap_tries_max = 2;  ///< number of attempts for one block before its request fails

/// A swap file. Several threads may access disjoint pages at once. The step's plan orders a read of pages after their
/// write.
class swap_file {
 public:
  static constexpr uint64_t bounce_bytes = uint64_t{1} << 20;  ///< largest buffer for copies of unaligned ranges

  /// Creates a swap file on the file `on`, which must contain `bytes` zeros, a multiple of `swap_page_bytes`. A run
  /// makes its swap files by `swap_space::create`.
  swap_file(file on, uint64_t bytes, bool checksums);
  swap_file(const swap_file&) = delete;
  swap_file& operator=(const swap_file&) = delete;

  /// Returns a swap file in memory, full of zeros, for simulations. Fails if the system has no memory.
  static core::result<std::shared_ptr<swap_file>> in_memory(const std::string& name, uint64_t bytes,
                                                            bool checksums = true);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const file& handle() const { return on_; }
  [[nodiscard]] bool checksums() const { return !digests_.empty(); }
  /// Returns the size of the memory for the digests, in bytes.
  [[nodiscard]] uint64_t digest_bytes() const { return digests_.size() * sizeof(uint64_t); }

  /// Reads on the calling thread, with any offset, length and address. For access between steps; transfers within a
  /// step use a `swap_queue`. Errors: `bad_input` beyond the end of the file; `io` with file and offset.
  [[nodiscard]] core::result<void> read(uint64_t offset, std::span<std::byte> into) const;
  /// Writes on the calling thread, with any offset, length and address. Rewrites partly covered pages as a whole, so
  /// two threads must not write to one page. Errors: `bad_input` beyond the end of the file; `io`, `no_space` with file
  /// and offset.
  core::result<void> write(uint64_t offset, std::span<const std::byte> from);

  /// Returns `bad_input`, with the file's name, if the range is not within the file. `what`, `read` or `write`, is for
  /// the error's text.
  [[nodiscard]] core::result<void> check_range(const char* what, uint64_t offset, uint64_t length) const;

  /// Computes and stores the digests of `pages`, whole pages that a queue will write at `offset`. Does nothing if
  /// checksums are off.
  void take_digests(uint64_t offset, std::span<const std::byte> pages);
  /// Compares `pages`, which a queue has read at `offset`, with the stored digests. Error `io` with file and offset of
  /// the first page that differs.
  [[nodiscard]] core::result<void> check_digests(uint64_t offset, std::span<const std::byte> pages) const;

  /// Returns the error of a read at `offset` that reached the end of the file.
  [[nodiscard]] core::error ends_early(uint64_t offset, uint64_t wanted, uint64_t got) const;

 private:
  core::result<void> read_pages(uint64_t offset, std::span<std::byte> into) const;
  core::result<void> write_pages(uint64_t offset, std::span<const std::byte> from);

  file on_;
  uint64_t bytes_;
  std::vector<uint64_t> digests_;  // digest of each page; empty if checksums are off
};

}  // namespace troupe::storage
