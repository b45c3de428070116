// Tracks one read or write until its end: continues short transfers, repeats interrupted ones, and reports the end of
// the file as a smaller number of bytes. Makes no system calls itself, except in `call` and `run`; a queue makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/error.hpp"
#include "storage/queue/file.hpp"

namespace troupe::storage {

inline constexpr uint64_t request_bytes_max = uint64_t{1} << 30;  ///< largest size of one request in a queue
/// Largest number of short transfers of one request; after one more the request fails.
inline constexpr unsigned continuations_max = 64;
/// Largest number of consecutive EINTR and EAGAIN answers; after one more the request fails.
inline constexpr unsigned interruptions_max = 1000;

enum class io_kind : uint8_t { read, write };  ///< read: file to memory; write: memory to file

/// A request to read or write a range of a file. The caller owns the memory and must not access it until the request is
/// complete.
struct io_request {
  io_kind kind = io_kind::read;
  file on;
  uint64_t offset = 0;          ///< offset in the file, in bytes
  std::span<std::byte> memory;  ///< memory that a read fills or whose contents a write stores
  uint64_t token = 0;           ///< number that the caller chooses; the completion contains it
};

/// Returns a request to read `into.size()` bytes; write_request() returns a request to write. The completion contains
/// `token`.
io_request read_request(file on, uint64_t offset, std::span<std::byte> into, uint64_t token = 0);
io_request write_request(file on, uint64_t offset, std::span<const std::byte> from, uint64_t token = 0);

/// Result of a request. `bytes` is the number of bytes transferred, also after an error; without an error it is less
/// than requested only for a read that reached the end of the file.
struct io_completion {
  uint64_t token = 0;
  uint64_t bytes = 0;
  std::optional<core::error> error;  ///< error of the request: `stopped` after a cancellation, `no_space` or `io`
};

/// State of a request in progress: the bytes transferred so far, and its error.
class transfer {
 public:
  transfer() = default;
  explicit transfer(io_request what) : request_(std::move(what)) {}

  /// Refuses requests that no system call could perform: no file, nothing to transfer, too long, unaligned for a direct
  /// file.
  static core::result<void> check(const io_request& what);

  [[nodiscard]] const io_request& request() const { return request_; }
  /// Returns the memory that is still to be transferred; `rest_offset` returns its offset in the file.
  [[nodiscard]] std::span<std::byte> rest() const { return request_.memory.subspan(done_); }
  [[nodiscard]] uint64_t rest_offset() const { return request_.offset + done_; }

  /// Records the answer to a system call for `rest`: bytes, or a negative errno. Returns true if the request is
  /// complete.
  bool account(int64_t answer);

  /// Prevents further system calls: a request that is incomplete after the next answer ends with `stopped`.
  void cancel() { cancelled_ = true; }

  /// Returns the completion; valid once the request is complete.
  [[nodiscard]] io_completion completion() const { return {request_.token, done_, error_}; }

  /// Makes one system call for `rest`, on the calling thread; returns bytes or a negative errno.
  [[nodiscard]] int64_t call() const;

  /// Makes system calls until the request is complete, on the calling thread.
  core::result<uint64_t> run();

 private:
  bool end(core::error_kind kind, const std::string& why);

  io_request request_;
  uint64_t done_ = 0;
  unsigned continuations_ = 0;
  unsigned interruptions_ = 0;
  bool cancelled_ = false;
  std::optional<core::error> error_;
};

}  // namespace troupe::storage
