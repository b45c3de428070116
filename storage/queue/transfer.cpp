#include "storage/queue/transfer.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace troupe::storage {

io_request read_request(file on, uint64_t offset, std::span<std::byte> into, uint64_t token) {
  return {io_kind::read, std::move(on), offset, into, token};
}

io_request write_request(file on, uint64_t offset, std::span<const std::byte> from, uint64_t token) {
  // io_request has one type of span for both directions; a write never modifies its memory.
  return {io_kind::write, std::move(on), offset, {const_cast<std::byte*>(from.data()), from.size()}, token};
}

core::result<void> transfer::check(const io_request& what) {
  const auto refuse = [&](const std::string& why) {
    const std::string where = what.on.is_open() ? what.on.path().string() : std::string("no file");
    return core::fail(core::error_kind::bad_input, fmt::format("{}{} of {} bytes at {}: {}", where,
                                                               what.kind == io_kind::read ? ": read" : ": write",
                                                               what.memory.size(), what.offset, why));
  };
  if (!what.on.is_open()) return refuse("the file is not open");
  if (what.memory.empty()) return refuse("a request of 0 bytes; wanted at least one");
  if (what.memory.size() > request_bytes_max)
    return refuse(fmt::format("wanted at most {} bytes in one request", request_bytes_max));
  if (what.offset > static_cast<uint64_t>(std::numeric_limits<off_t>::max()) - what.memory.size())
    return refuse("its end exceeds the largest offset of a file");
  const auto wants = what.on.alignment();
  if (what.offset % wants.offset_bytes != 0 || what.memory.size() % wants.offset_bytes != 0)
    return refuse(fmt::format("wanted multiples of {} bytes for direct I/O", wants.offset_bytes));
  if (reinterpret_cast<uintptr_t>(what.memory.data()) % wants.memory_bytes != 0)
    return refuse(fmt::format("wanted memory at a multiple of {} bytes for direct I/O", wants.memory_bytes));
  return {};
}

bool transfer::end(core::error_kind kind, const std::string& why) {
  error_ = core::error{kind, fmt::format("{}{} at {}: wanted {} bytes, got {}: {}", request_.on.path().string(),
                                         request_.kind == io_kind::read ? ": read" : ": write", request_.offset,
                                         request_.memory.size(), done_, why)};
  return true;
}

bool transfer::account(int64_t answer) {
  const bool reads = request_.kind == io_kind::read;
  if (answer == -ECANCELED) return end(core::error_kind::stopped, "cancelled");
  if (answer == -EINTR || answer == -EAGAIN) {
    if (cancelled_) return end(core::error_kind::stopped, "cancelled");
    if (++interruptions_ > interruptions_max)
      return end(core::error_kind::io, fmt::format("interrupted {} times in a row", interruptions_max));
    return false;
  }
  if (answer < 0) {
    const auto code = static_cast<int>(-answer);
    return end(request_.on.failure({}, code).kind, std::strerror(code));
  }
  interruptions_ = 0;
  if (answer == 0) return reads || end(core::error_kind::io, "the system wrote nothing");
  const auto got = std::min<uint64_t>(static_cast<uint64_t>(answer), request_.memory.size() - done_);
  done_ += got;
  if (done_ == request_.memory.size()) return true;
  const uint64_t sector = request_.on.alignment().offset_bytes;
  if (done_ % sector != 0) {
    if (reads) return true;  // a direct read that stops inside a sector has reached the end of the file
    done_ -= done_ % sector;
  }
  if (cancelled_) return end(core::error_kind::stopped, "cancelled");
  if (++continuations_ > continuations_max)
    return end(core::error_kind::io, fmt::format("cut short {} times", continuations_max));
  return false;
}

int64_t transfer::call() const {
  // Largest transfer of one system call in bytes: within Linux's limit, and a multiple of every supported alignment.
  constexpr size_t call_bytes_max = size_t{1} << 30;
  const auto part = rest().first(std::min(rest().size(), call_bytes_max));
  const int on = request_.on.descriptor();
  const auto at = static_cast<off_t>(rest_offset());
  const ssize_t answer = request_.kind == io_kind::read ? ::pread(on, part.data(), part.size(), at)
                                                        : ::pwrite(on, part.data(), part.size(), at);
  return answer < 0 ? -static_cast<int64_t>(errno) : answer;
}

core::result<uint64_t> transfer::run() {
  if (request_.on.is_open() && request_.memory.empty()) return uint64_t{0};
  for (int64_t answer = call(); !account(answer); answer = call())
    if (answer == -EAGAIN) ::sched_yield();
  if (error_) return core::fail(*error_);
  return done_;
}

}  // namespace troupe::storage
