#include "cluster/link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace troupe::cluster {
namespace {

struct frame_head {
  uint32_t bytes = 0;
  uint32_t descriptors = 0;
};

/// Bytes that one recvmsg() reads at most.
constexpr size_t chunk_bytes = size_t{256} << 10;

std::string no_room_for_descriptor() {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format(
      "sent an open file that process {} cannot receive: it has reached its limit of open files (ulimit -n: {}), raise "
      "it",
      ::getpid(), limit.rlim_cur);
}

core::error gone(const std::string& why) { return {core::error_kind::peer_lost, "the other end of a link: " + why}; }

}  // namespace

std::string frame_of(const message& m, size_t num_descriptors) {
  const std::string body = encode(m);
  const frame_head head{static_cast<uint32_t>(body.size()), static_cast<uint32_t>(num_descriptors)};
  std::string out(sizeof head + body.size(), '\0');
  std::memcpy(out.data(), &head, sizeof head);
  std::memcpy(&out[sizeof head], body.data(), body.size());
  return out;
}

core::result<std::optional<parcel>> frame_reader::next() {
  frame_head head;
  if (waiting_.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, waiting_.data(), sizeof head);
  if (head.bytes > frame_bytes_max || head.descriptors > descriptors_max)
    return core::fail(
        core::error_kind::mismatch,
        fmt::format("a frame between processes: wanted at most {} bytes and {} descriptors, got {} and {}",
                    frame_bytes_max, descriptors_max, head.bytes, head.descriptors));
  if (waiting_.size() < sizeof head + head.bytes) return std::nullopt;
  if (descriptors_.size() < head.descriptors)
    return core::fail(core::error_kind::mismatch, "a frame between processes came without its descriptors");
  TROUPE_ASSIGN(auto what, decode(std::string_view(waiting_).substr(sizeof head, head.bytes)));
  parcel out{std::move(what), {}};
  for (uint32_t i = 0; i < head.descriptors; ++i) {
    out.with.push_back(std::move(descriptors_.front()));
    descriptors_.pop_front();
  }
  waiting_.erase(0, sizeof head + head.bytes);
  return out;
}

socket_link::socket_link(shared_descriptor end) : end_(std::move(end)) {
  ::fcntl(number(), F_SETFL, ::fcntl(number(), F_GETFL) | O_NONBLOCK);
  ::fcntl(number(), F_SETFD, FD_CLOEXEC);
}

core::result<void> socket_link::send(parcel p) {
  std::string bytes = frame_of(p.what, p.with.size());
  const std::lock_guard lock(mutex_);
  if (bytes.size() > frame_bytes_max || waiting_bytes_ + bytes.size() > waiting_bytes_max)
    return core::fail(
        core::error_kind::limit,
        fmt::format("a message between processes: wanted at most {} bytes, and {} that wait, got {} and {}",
                    frame_bytes_max, waiting_bytes_max, bytes.size(), waiting_bytes_));
  waiting_bytes_ += bytes.size();
  out_.push_back({std::move(bytes), std::move(p.with)});
  return flush_locked();
}

core::result<void> socket_link::flush() {
  const std::lock_guard lock(mutex_);
  return flush_locked();
}

bool socket_link::has_waiting() const {
  const std::lock_guard lock(mutex_);
  return !out_.empty();
}

core::result<void> socket_link::flush_locked() {
  while (!out_.empty()) {
    outgoing& x = out_.front();
    iovec part{&x.bytes[x.sent], x.bytes.size() - x.sent};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * descriptors_max)> space{};
    if (x.sent == 0 && !x.with.empty()) {  // the first byte of a frame carries the frame's descriptors (SCM_RIGHTS)
      m.msg_control = space.data();
      m.msg_controllen = CMSG_SPACE(sizeof(int) * x.with.size());
      cmsghdr* const c = CMSG_FIRSTHDR(&m);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int) * x.with.size());
      for (size_t i = 0; i < x.with.size(); ++i) {
        const int number = x.with[i]->number();
        std::memcpy(CMSG_DATA(c) + i * sizeof(int), &number, sizeof number);
      }
    }
    const ssize_t n = ::sendmsg(number(), &m, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0) return core::fail(gone(std::strerror(errno)));
    x.sent += static_cast<size_t>(n);
    waiting_bytes_ -= static_cast<uint64_t>(n);
    if (x.sent == x.bytes.size()) out_.pop_front();
  }
  return {};
}

core::result<std::vector<parcel>> socket_link::receive() {
  std::vector<parcel> out;
  std::optional<core::error> end;
  thread_local std::string buffer(chunk_bytes, '\0');
  while (!end) {
    iovec part{buffer.data(), buffer.size()};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * descriptors_max)> space{};
    m.msg_control = space.data();
    m.msg_controllen = space.size();
    const ssize_t n = ::recvmsg(number(), &m, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) end = gone(std::strerror(errno));
    if (n == 0) end = gone("it was closed");
    if (n > 0 && (m.msg_flags & MSG_CTRUNC) != 0) return core::fail(core::error_kind::limit, no_room_for_descriptor());
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); n > 0 && c != nullptr; c = CMSG_NXTHDR(&m, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int got = -1;
        std::memcpy(&got, CMSG_DATA(c) + at, sizeof got);
        in_.add(own(got));
      }
    }
    if (n > 0) in_.add(std::string_view(buffer).substr(0, static_cast<size_t>(n)));
  }
  for (;;) {
    TROUPE_ASSIGN(auto next, in_.next());
    if (!next) break;
    out.push_back(std::move(*next));
  }
  if (end && out.empty()) return core::fail(*end);
  return out;
}

core::result<std::pair<shared_descriptor, shared_descriptor>> make_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return core::fail(core::error_kind::limit,
                      std::string("a link to a process: wanted a pair of sockets, got ") + std::strerror(errno));
  return std::pair{own(ends[0]), own(ends[1])};
}

}  // namespace troupe::cluster
