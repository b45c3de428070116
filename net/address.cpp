#include "net/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/system_error.hpp"

namespace troupe::net {
namespace {

/// Largest number of connections of a listening socket that wait to be accepted.
constexpr int backlog = 1024;

core::error no_socket(const std::string& what, int number) {
  const bool full = number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
  return {full ? core::error_kind::limit : core::error_kind::peer_lost, what + ": " + core::system_message(number)};
}

}  // namespace

address address::of(const void* sockaddr, size_t bytes) {
  address out;
  out.bytes = static_cast<socklen_t>(std::min(bytes, sizeof out.storage));
  std::memcpy(&out.storage, sockaddr, out.bytes);
  return out;
}

uint16_t address::port() const {
  if (storage.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return 0;
}

std::string address::host() const {
  std::array<char, INET6_ADDRSTRLEN> out{};
  if (storage.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, out.data(), out.size());
  } else if (storage.ss_family == AF_INET6) {
    const auto& ip = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&ip))
      ::inet_ntop(AF_INET, &ip.s6_addr[12], out.data(), out.size());
    else
      ::inet_ntop(AF_INET6, &ip, out.data(), out.size());
  }
  return out.data();
}

std::string address::text() const {
  const auto who = host();
  return who.empty() ? who : place_text(who, port());
}

std::string address_text(std::string_view bytes) {
  std::array<char, INET6_ADDRSTRLEN> out{};
  if (bytes.size() == 4) ::inet_ntop(AF_INET, bytes.data(), out.data(), out.size());
  if (bytes.size() == 16) ::inet_ntop(AF_INET6, bytes.data(), out.data(), out.size());
  return out.data();
}

std::string place_text(const std::string& host, uint16_t port) {
  const bool colons = host.find(':') != std::string::npos;
  return fmt::format("{}:{}", colons ? "[" + host + "]" : host, port);
}

core::result<address> numeric_address(const std::string& text, uint16_t port) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) return address::of(&four, sizeof four);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  // For "*" sin6_addr stays all zeros, which means every address of this machine.
  if (text == "*" || ::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) return address::of(&six, sizeof six);
  return core::fail(core::error_kind::bad_input,
                    "an address to listen at: wanted an IP address of this machine or *, got '" + text + "'");
}

bool is_numeric(const std::string& host) { return host != "*" && numeric_address(host, 0).has_value(); }

core::result<int> listen_at(const address& at) {
  const auto failed = [&](int number) {
    const bool user = number == EADDRINUSE || number == EADDRNOTAVAIL || number == EACCES;
    return core::fail(user ? core::error_kind::bad_input : core::error_kind::limit,
                      "cannot listen at " + at.text() + ": " + core::system_message(number));
  };
  int s = ::socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  address where = at;
  if (s < 0 && errno == EAFNOSUPPORT && at.storage.ss_family == AF_INET6 &&
      IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&at.storage)->sin6_addr)) {
    where = *numeric_address("0.0.0.0", at.port());  // the machine has no IPv6: listens at all IPv4 addresses
    s = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  }
  if (s < 0) return failed(errno);
  const int on = 1, off = 0;
  ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (where.storage.ss_family == AF_INET6) ::setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(s, where.get(), where.bytes) != 0 || ::listen(s, backlog) != 0) {
    const int number = errno;
    ::close(s);
    return failed(number);
  }
  return s;
}

core::result<address> address_of(int socket) {
  address out;
  out.bytes = sizeof out.storage;
  if (::getsockname(socket, reinterpret_cast<::sockaddr*>(&out.storage), &out.bytes) != 0)
    return core::fail(core::error_kind::limit, "cannot read the address of a socket: " + core::system_message(errno));
  return out;
}

address peer_of(int socket) {
  address out;
  out.bytes = sizeof out.storage;
  if (::getpeername(socket, reinterpret_cast<::sockaddr*>(&out.storage), &out.bytes) != 0) return {};
  return out;
}

core::result<int> begin_connect(const address& to) {
  const int s = ::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (s < 0) return core::fail(no_socket("cannot create a socket to " + to.text(), errno));
  if (::connect(s, to.get(), to.bytes) != 0 && errno != EINPROGRESS) {
    const int number = errno;
    ::close(s);
    return core::fail(no_socket(to.text(), number));
  }
  return s;
}

core::result<void> connected(int socket) {
  int number = 0;
  socklen_t bytes = sizeof number;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &number, &bytes) != 0) number = errno;
  if (number != 0) return core::fail(core::error_kind::peer_lost, core::system_message(number));
  return {};
}

int accept_from(int listening) {
  for (;;) {
    const int s = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (s >= 0) return s;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return -2;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EBADF || errno == EINVAL) return -1;
    // Any other error concerns a connection that failed before it was accepted; the loop accepts the next one.
  }
}

void prepare(int socket, int queue_bytes) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // On a connection that sends few bytes, such as a control link, the system repeats lost bytes for the first six times
  // at a constant interval (about 0.2 s), without exponential backoff. A link thus recovers soon after a short
  // interruption of the network.
  ::setsockopt(socket, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
  if (queue_bytes > 0) ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &queue_bytes, sizeof queue_bytes);
}

}  // namespace troupe::net
