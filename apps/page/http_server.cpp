#include "apps/page/http_server.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <list>
#include <vector>

#include "core/clock.hpp"

namespace troupe::apps {
namespace {

using outcome = byte_channel::outcome;

constexpr int looks_every_ms = 250;
/// Number of connections that are accepted in one turn of the server's loop; further ones wait for the next turn.
constexpr int accepts_max = 64;
/// Nanoseconds after an answer in which the server still reads and drops bytes of the client.
constexpr int64_t close_ns_max = 1'000'000'000;
/// Niceness of the server's thread, so that the ranks' threads take precedence.
constexpr int niceness = 10;

/// Calls `answer` and converts an exception to status 500, so that no request can end a run.
http_answer answer_of(const page_answering& answer, const http_request& request) {
  try {
    return answer(request);
  } catch (const std::exception& e) {
    return {.status = 500, .body = std::string("no answer: ") + e.what() + "\n"};
  }
}

// Blocks SIGPIPE on this thread: OpenSSL writes with write(), which raises it if the visitor has closed the connection.
void take_no_sigpipe() {
  sigset_t gone;
  ::sigemptyset(&gone);
  ::sigaddset(&gone, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &gone, nullptr);
}

}  // namespace

struct http_server::visitor {
  int socket = -1;
  std::unique_ptr<byte_channel> bytes;
  std::string request = {}, answer = {};
  size_t sent = 0;
  bool is_answered = false;
  int64_t until_ns = 0;
  short wants = POLLIN;
};

core::result<int> listen_at(const std::string& host, uint16_t port) {
  const auto failed = [&](const char* why) {
    return core::fail(core::error_kind::bad_input,
                      fmt::format("cluster.page: cannot listen at {}:{}: {}", host, port, why));
  };
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), fmt::to_string(port).c_str(), &wanted, &found); code != 0)
    return failed(::gai_strerror(code));
  int socket = -1, why = 0;
  for (const addrinfo* a = found; a != nullptr && socket < 0; a = a->ai_next) {
    socket = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int one = 1;
    if (socket >= 0) ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (socket >= 0 && ::bind(socket, a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket, SOMAXCONN) == 0) break;
    why = errno;
    if (socket >= 0) ::close(socket);
    socket = -1;
  }
  ::freeaddrinfo(found);
  if (socket < 0) return failed(why == EADDRINUSE ? "another program uses that port" : std::strerror(why));
  return socket;
}

core::result<std::unique_ptr<http_server>> http_server::open(const std::string& host, uint16_t port,
                                                             std::unique_ptr<channel_maker> channels,
                                                             page_answering answer) {
  std::unique_ptr<http_server> out(new http_server);
  out->channels_ = std::move(channels);
  out->answer_ = std::move(answer);
  TROUPE_ASSIGN(auto socket, listen_at(host, port));
  out->socket_ = socket;
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  ::getsockname(out->socket_, reinterpret_cast<sockaddr*>(&at), &size);
  out->port_ = ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(at).sin6_port
                                              : reinterpret_cast<const sockaddr_in&>(at).sin_port);
  out->stop_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (out->stop_ < 0)
    return core::fail(core::error_kind::limit, "cluster.page: no file descriptor is left (ulimit -n)");
  try {
    out->thread_ = std::thread([s = out.get()] { s->serve(); });
  } catch (const std::system_error& e) {
    return core::fail(core::error_kind::limit,
                      std::string("cluster.page: cannot start a thread that serves the page: ") + e.what());
  }
  return out;
}

http_server::~http_server() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof one);
    thread_.join();
  }
  for (const int fd : {socket_, stop_})
    if (fd >= 0) ::close(fd);
}

bool http_server::go_on(visitor& v) const {
  const auto waits = [&v](const byte_channel::moved_bytes& did) {
    v.wants = did.what == outcome::wants_to_write ? POLLOUT : POLLIN;
    return did.what != outcome::over;
  };
  while (!v.is_answered && v.answer.empty()) {
    char buffer[4096];
    const auto did = v.bytes->read(buffer, sizeof buffer);
    if (did.what != outcome::moved) return waits(did);
    v.request.append(buffer, did.bytes);
    const auto asked = read_http_request(v.request);
    if (!asked.is_whole) continue;
    const bool secure = channels_->is_secure();
    v.answer = http_text(asked.refused != 0 ? http_answer{.status = asked.refused, .body = "refused\n"}
                                            : answer_of(answer_, asked.request),
                         secure);
    v.until_ns = core::now_ns() + answer_leaves_ns_max;
  }
  while (!v.is_answered && v.sent < v.answer.size()) {
    const auto did = v.bytes->write(v.answer.data() + v.sent, v.answer.size() - v.sent);
    if (did.what != outcome::moved) return waits(did);
    v.sent += did.bytes;
  }
  // Reads and drops further bytes: a connection that is closed with unread bytes may lose the answer.
  if (!v.is_answered) {
    v.is_answered = true;
    v.bytes.reset();
    ::shutdown(v.socket, SHUT_WR);
    v.until_ns = core::now_ns() + close_ns_max;
    v.wants = POLLIN;
  }
  char dropped[4096];
  const ssize_t n = ::recv(v.socket, dropped, sizeof dropped, MSG_DONTWAIT);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void http_server::serve() {
  take_no_sigpipe();
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness);
  std::list<visitor> visitors;  // open connections in the order of their arrival
  const auto leave = [&](std::list<visitor>::iterator v) {
    v->bytes.reset();
    ::close(v->socket);
    return visitors.erase(v);
  };
  for (;;) {
    std::vector<pollfd> on{{stop_, POLLIN, 0}, {socket_, POLLIN, 0}};
    for (const auto& v : visitors) on.push_back({v.socket, v.wants, 0});
    ::poll(on.data(), on.size(), visitors.empty() ? -1 : looks_every_ms);
    if (on[0].revents != 0) break;
    const int64_t now = core::now_ns();
    size_t i = 2;
    for (auto v = visitors.begin(); v != visitors.end(); ++i)
      v = (on[i].revents == 0 || go_on(*v)) && now < v->until_ns ? std::next(v) : leave(v);
    if (on[1].revents == 0) continue;
    for (int n = 0; n < accepts_max; ++n) {
      const int fd = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      // no descriptor is free, so waits, because a retry would fail at once
      if (fd < 0 && (errno == EMFILE || errno == ENFILE)) ::usleep(1000 * looks_every_ms);
      if (fd < 0) break;
      if (visitors.size() >= visitors_max) leave(visitors.begin());
      visitors.push_back({.socket = fd, .bytes = channels_->make(fd), .until_ns = now + request_arrives_ns_max});
      if (visitors.back().bytes == nullptr || !go_on(visitors.back())) leave(std::prev(visitors.end()));
    }
  }
  while (!visitors.empty()) leave(visitors.begin());
}

}  // namespace troupe::apps
