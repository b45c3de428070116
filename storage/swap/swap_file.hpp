// One scratch file of a run and the digests of its pages. Owns what was written where, as far as digests tell, and
// plain access between steps; many transfers at once are `swap_queue.hpp`'s, names and space are `swap_space.hpp`'s.
//
// Errors are found like this. Every page has a digest in memory (8 bytes for 4096), taken before the page is
// written and compared with what is read; a page never written counts as zeros, which is what a new file holds. A lost
// or torn write, a flipped byte, a file that somebody cut: the next read says which file and which page, and no wrong
// byte is handed out. Without checksums only what the system itself reports is noticed.
//
// The retry policy, here and in `swap_queue`: a block that failed (an error of the device, a digest that differs, a
// file that ends early) is tried once more, then the access fails; a full disk and a cancellation are not tried again;
// short and interrupted transfers are no failures, they continue (`transfer.hpp`). What a failed write leaves is
// unknown: its pages are refused by the next read unless they arrived whole, and are good again once written.
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

inline constexpr unsigned swap_tries_max = 2;  ///< of one block: once, once more, then it failed

/// Used by many threads at once on disjoint pages. Who orders a read behind the write of its pages is the plan's
/// business.
class swap_file {
 public:
  static constexpr uint64_t bounce_bytes = uint64_t{1} << 20;  ///< the most that plain access copies through

  /// `on` holds `bytes` zeros, a multiple of `swap_page_bytes`. Files of a run come from `swap_space::create`.
  swap_file(file on, uint64_t bytes, bool checksums);
  swap_file(const swap_file&) = delete;
  swap_file& operator=(const swap_file&) = delete;

  /// A file without a name and without a disk, all zeros: for simulations. Error `limit` where there is no memory.
  static core::result<std::shared_ptr<swap_file>> in_memory(const std::string& name, uint64_t bytes,
                                                            bool checksums = true);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const file& handle() const { return on_; }
  [[nodiscard]] bool checksums() const { return !digests_.empty(); }
  [[nodiscard]] uint64_t digest_bytes() const { return digests_.size() * sizeof(uint64_t); }  ///< memory they take

  /// Reads or writes on the calling thread: any offset, length and address. Edge pages are read, changed and written,
  /// so two threads may not share one. For access between steps; a step's own transfers go through a `swap_queue`.
  /// Errors  `bad_input` beyond the end of the file; `io`, `no_space` with file and offset.
  [[nodiscard]] core::result<void> read(uint64_t offset, std::span<std::byte> into) const;
  core::result<void> write(uint64_t offset, std::span<const std::byte> from);  ///< as `read`

  /// Refuses what does not lie in the file: `bad_input` with its name, or nothing. `what` is `read` or `write`.
  [[nodiscard]] core::result<void> check_range(const char* what, uint64_t offset, uint64_t length) const;

  /// For queues: whole pages of the file, `pages` is what is about to be written at `offset`. Nothing without
  /// checksums.
  void take_digests(uint64_t offset, std::span<const std::byte> pages);
  /// For queues: holds what was read at `offset` against what was written. Error `io` names file and offset of the
  /// first page that differs.
  [[nodiscard]] core::result<void> check_digests(uint64_t offset, std::span<const std::byte> pages) const;

  /// The error of a read at `offset` that met the end of the file.
  [[nodiscard]] core::error ends_early(uint64_t offset, uint64_t wanted, uint64_t got) const;

 private:
  core::result<void> read_pages(uint64_t offset, std::span<std::byte> into) const;
  core::result<void> write_pages(uint64_t offset, std::span<const std::byte> from);

  file on_;
  uint64_t bytes_;
  std::vector<uint64_t> digests_;  // none without checksums
};

}  // namespace troupe::storage
