#include "net/http_request.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "cluster/descriptor.hpp"
#include "core/clock.hpp"
#include "core/number.hpp"
#include "core/system_error.hpp"

namespace troupe::net {
namespace {

core::result<void> wait_for(int socket, short events, int64_t deadline_ns) {
  const int64_t left_ns = deadline_ns - core::now_ns();
  pollfd on{socket, events, 0};
  if (left_ns > 0 && ::poll(&on, 1, static_cast<int>(left_ns / 1'000'000) + 1) > 0) return {};
  return core::fail(error_kind::peer_lost, "no answer in time");
}

core::error too_long() {
  return {error_kind::limit, fmt::format("wanted an answer of at most {} bytes, got more", http_answer_bytes_max)};
}

/// Sends a request over a plain connection, and returns the bytes received until the other end closes, as in HTTP/1.0.
core::result<std::string> ask_plainly(int socket, std::string_view what, int64_t deadline_ns) {
  while (!what.empty()) {
    TROUPE_TRY(wait_for(socket, POLLOUT, deadline_ns));
    const ssize_t n = ::send(socket, what.data(), what.size(), MSG_NOSIGNAL);
    if (n > 0) what.remove_prefix(static_cast<size_t>(n));
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return core::fail(error_kind::peer_lost, core::system_message(errno));
  }
  std::string out;
  std::array<char, 8192> part;
  for (;;) {
    TROUPE_TRY(wait_for(socket, POLLIN, deadline_ns));
    const ssize_t n = ::recv(socket, part.data(), part.size(), 0);
    if (n == 0) return out;
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return core::fail(error_kind::peer_lost, core::system_message(errno));
    if (n > 0) out.append(part.data(), static_cast<size_t>(n));
    if (out.size() > http_answer_bytes_max) return core::fail(too_long());
  }
}

core::result<void> shake_hands(tls_stream& with, int socket, int64_t deadline_ns) {
  for (;;) {
    const auto done = with.handshake();
    TROUPE_TRY(with.flush());
    if (!done) return core::fail(done.error());
    if (*done && !with.has_unsent()) return {};
    const int events = (*done ? 0 : POLLIN) | (with.has_unsent() ? POLLOUT : 0);
    TROUPE_TRY(wait_for(socket, static_cast<short>(events), deadline_ns));
  }
}

/// Sends a request over TLS, and returns the bytes received until the other end closes. The answer ends with any
/// kind of close; the caller checks that the answer is complete.
core::result<std::string> ask_over_tls(const http_server& to, int socket, std::string_view what, int64_t deadline_ns) {
  TROUPE_ASSIGN(auto stream,
                tls_stream::make(to.as->options(tls_side::connects), tls_side::connects, socket, 64 << 10U));
  auto& tls = *stream;
  TROUPE_TRY(shake_hands(tls, socket, deadline_ns));
  if (auto why = to.as->objection(tls, to.named.host); !why.empty())
    return core::fail(error_kind::mismatch, std::move(why));
  for (auto left = std::as_bytes(std::span(what)); !left.empty() || tls.has_unsent();) {
    TROUPE_ASSIGN(const auto taken, tls.write(left));
    left = left.subspan(taken);
    TROUPE_TRY(tls.flush());
    if (!tls.has_unsent()) continue;
    TROUPE_TRY(wait_for(socket, POLLOUT, deadline_ns));
  }
  std::string out;
  std::array<std::byte, 8192> part;
  for (;;) {
    const auto n = tls.read(part);
    if (!n && out.empty()) return core::fail(n.error());
    if (!n) return out;
    out.append(reinterpret_cast<const char*>(part.data()), *n);
    if (out.size() > http_answer_bytes_max) return core::fail(too_long());
    if (*n > 0) continue;
    TROUPE_TRY(wait_for(socket, POLLIN, deadline_ns));
  }
}

core::result<http_answer> read_answer(const std::string& text) {
  const auto none = [] { return core::fail(error_kind::mismatch, "wanted an answer in HTTP, got something else"); };
  const size_t head = text.find("\r\n\r\n");
  const size_t status = text.find(' ');
  if (!text.starts_with("HTTP/1.") || head == std::string::npos || status > head) return none();
  http_answer out;
  std::string_view rest(text.data() + status + 1, text.data() + head);
  const auto number = core::take_number<int>(rest);
  if (!number || rest.data() != text.data() + status + 4) return none();
  out.status = *number;
  out.body = text.substr(head + 4);
  return out;
}

}  // namespace

core::result<std::vector<address>> addresses_of(const core::host_port& of) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int wrong = ::getaddrinfo(of.host.c_str(), fmt::to_string(of.port).c_str(), &hints, &found); wrong != 0)
    return core::fail(error_kind::peer_lost, "no address of the host '" + of.host + "': " + ::gai_strerror(wrong));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<address> out;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) out.push_back(address::of(a->ai_addr, a->ai_addrlen));
  return out;
}

core::result<http_answer> post(const http_server& to, const std::string& path, const std::string& body,
                               int64_t deadline_ns) {
  TROUPE_ASSIGN(auto begun, begin_connect(to.at));
  const cluster::descriptor socket(begun);
  TROUPE_TRY(wait_for(socket.number(), POLLOUT, deadline_ns));
  TROUPE_TRY(connected(socket.number()));
  const std::string request =
      fmt::format("POST {} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                  path, place_text(to.named.host, to.named.port), body.size(), body);
  TROUPE_ASSIGN(const auto text, to.as == nullptr ? ask_plainly(socket.number(), request, deadline_ns)
                                                  : ask_over_tls(to, socket.number(), request, deadline_ns));
  return read_answer(text);
}

}  // namespace troupe::net
