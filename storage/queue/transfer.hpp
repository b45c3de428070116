// One read or write until it is over: short transfers are continued, interruptions repeated, the end
// of the file is a short count. Pure bookkeeping, the same for every queue; the system calls are the queue's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/error.hpp"
#include "storage/queue/file.hpp"

namespace troupe::storage {

inline constexpr uint64_t request_bytes_max = uint64_t{1} << 30;  ///< longest read or write of one request in a queue
inline constexpr unsigned continuations_max = 64;                 ///< short transfers of one request, then it failed
inline constexpr unsigned interruptions_max = 1000;  ///< EINTR and EAGAIN in a row without a byte, then it failed

enum class io_kind : uint8_t { read, write };  ///< file to memory, memory to file

/// The bytes to be transferred. The memory stays the caller's and untouched until the request is over.
struct io_request {
  io_kind kind = io_kind::read;
  file on;
  uint64_t offset = 0;          ///< in the file, bytes
  std::span<std::byte> memory;  ///< filled by a read; a write only looks
  uint64_t token = 0;           ///< the caller's own, comes back with the completion
};

/// One request; `token` comes back with its completion.
io_request read_request(file on, uint64_t offset, std::span<std::byte> into, uint64_t token = 0);
io_request write_request(file on, uint64_t offset, std::span<const std::byte> from, uint64_t token = 0);

/// How a request ended. `bytes` counts what was transferred in any case; without an error it is less than wanted only
/// for a read that met the end of the file.
struct io_completion {
  uint64_t token = 0;
  uint64_t bytes = 0;
  std::optional<core::error> error;  ///< `stopped` when it was cancelled, `no_space`, `io`
};

/// A request under way.
class transfer {
 public:
  transfer() = default;
  explicit transfer(io_request what) : request_(std::move(what)) {}

  /// Refuses what no system call could do: no file, nothing to transfer, too long, unaligned where the file is direct.
  static core::result<void> check(const io_request& what);

  [[nodiscard]] const io_request& request() const { return request_; }
  /// The bytes of the next system call.
  [[nodiscard]] std::span<std::byte> rest() const { return request_.memory.subspan(done_); }
  [[nodiscard]] uint64_t rest_offset() const { return request_.offset + done_; }

  /// Takes the answer to a system call for `rest`: bytes, or a negative errno. True when the request is over.
  bool account(int64_t answer);

  /// No further system call: what is not over yet ends as `stopped` with the next answer.
  void cancel() { cancelled_ = true; }

  /// Once over.
  [[nodiscard]] io_completion completion() const { return {request_.token, done_, error_}; }

  /// One system call for `rest`, on the calling thread: bytes or a negative errno.
  [[nodiscard]] int64_t call() const;

  /// Calls until over, on the calling thread.
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
