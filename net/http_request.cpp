#include "net/http_request.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

#include "cluster/descriptor.hpp"
#include "core/clock.hpp"
#include "core/system_error.hpp"

namespace troupe::net {
namespace {

using core::error_kind;

core::result<void> wait_for(int socket, short events, int64_t deadline_ns) {
  const int64_t left_ns = deadline_ns - core::now_ns();
  pollfd on{socket, events, 0};
  if (left_ns > 0 && ::poll(&on, 1, static_cast<int>(left_ns / 1'000'000) + 1) > 0) return {};
  return core::fail(error_kind::peer_lost, "no answer in time");
}

core::result<void> send_all(int socket, std::string_view what, int64_t deadline_ns) {
  while (!what.empty()) {
    if (auto ok = wait_for(socket, POLLOUT, deadline_ns); !ok) return ok;
    const ssize_t n = ::send(socket, what.data(), what.size(), MSG_NOSIGNAL);
    if (n > 0) what.remove_prefix(static_cast<size_t>(n));
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return core::fail(error_kind::peer_lost, core::system_message(errno));
  }
  return {};
}

/// Until the other end closes, as HTTP/1.0 has it.
core::result<std::string> receive_all(int socket, int64_t deadline_ns) {
  std::string out;
  std::array<char, 8192> part;
  for (;;) {
    if (auto ok = wait_for(socket, POLLIN, deadline_ns); !ok) return core::fail(ok.error());
    const ssize_t n = ::recv(socket, part.data(), part.size(), 0);
    if (n == 0) return out;
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return core::fail(error_kind::peer_lost, core::system_message(errno));
    if (n > 0) out.append(part.data(), static_cast<size_t>(n));
    if (out.size() > http_answer_bytes_max)
      return core::fail(error_kind::limit,
                        "wanted an answer of at most " + std::to_string(http_answer_bytes_max) + " bytes, got more");
  }
}

core::result<http_answer> read_answer(const std::string& text) {
  const auto none = [] { return core::fail(error_kind::mismatch, "wanted an answer in HTTP, got something else"); };
  const size_t head = text.find("\r\n\r\n");
  const size_t status = text.find(' ');
  if (!text.starts_with("HTTP/1.") || head == std::string::npos || status > head) return none();
  http_answer out;
  const auto [end, wrong] = std::from_chars(text.data() + status + 1, text.data() + head, out.status);
  if (wrong != std::errc() || end != text.data() + status + 4) return none();
  out.body = text.substr(head + 4);
  return out;
}

}  // namespace

core::result<std::vector<address>> addresses_of(const core::host_port& of) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int wrong = ::getaddrinfo(of.host.c_str(), std::to_string(of.port).c_str(), &hints, &found); wrong != 0)
    return core::fail(error_kind::peer_lost, "no address of the host '" + of.host + "': " + ::gai_strerror(wrong));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<address> out;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) out.push_back(address::of(a->ai_addr, a->ai_addrlen));
  return out;
}

core::result<http_answer> post(const address& to, const std::string& host, const std::string& path,
                               const std::string& body, int64_t deadline_ns) {
  auto begun = begin_connect(to);
  if (!begun) return core::fail(begun.error());
  const cluster::descriptor socket(*begun);
  if (auto ok = wait_for(socket.number(), POLLOUT, deadline_ns); !ok) return core::fail(ok.error());
  if (auto ok = connected(socket.number()); !ok) return core::fail(ok.error());
  const std::string request = "POST " + path + " HTTP/1.0\r\nHost: " + host +
                              "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\n\r\n" + body;
  if (auto ok = send_all(socket.number(), request, deadline_ns); !ok) return core::fail(ok.error());
  const auto text = receive_all(socket.number(), deadline_ns);
  if (!text) return core::fail(text.error());
  return read_answer(*text);
}

}  // namespace troupe::net
