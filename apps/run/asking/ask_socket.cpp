#include "apps/run/asking/ask_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <list>
#include <vector>

#include "core/clock.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

constexpr int looks_every_ms = 50;

/// Returns the socket's address. Socket paths are limited to 108 bytes, so the folder is named by its descriptor; by
/// its path if the system has no /proc and the path is short enough.
sockaddr_un address_in(int folder, const std::filesystem::path& path_of_folder) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::string path = fmt::format("/proc/self/fd/{}/{}", folder, socket_name);
  const std::string by_path = (path_of_folder / socket_name).string();
  if (::access("/proc/self/fd", F_OK) != 0 && by_path.size() < sizeof out.sun_path) path = by_path;
  std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
  return out;
}

/// Calls `answer` and converts an exception to an `error` for the client, so that no question can end a run.
std::optional<std::string> said_by(const pending_answer& answer) {
  try {
    return answer();
  } catch (const std::exception& e) {
    return fmt::format("{{\"error\":{}}}", core::json_string(fmt::format("no answer: {}", e.what())));
  }
}

int open_folder(const std::filesystem::path& folder) {
  return ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

struct ask_socket::client {
  int fd = -1;
  std::string question;
  pending_answer answer;
  std::string line = {};  ///< text of the answer; empty: the answer does not exist yet
  size_t sent = 0;        ///< number of bytes of `line` that have been sent
  /// Time at which the client connected, from which the time limit of the question counts. When the answer exists: time
  /// at which it was made, from which the time limit of sending counts.
  int64_t since_ns = 0;
};

core::result<std::unique_ptr<ask_socket>> ask_socket::open(const std::filesystem::path& folder, answering answer) {
  std::unique_ptr<ask_socket> out(new ask_socket);
  out->answer_ = std::move(answer);
  out->folder_ = open_folder(folder);
  if (out->folder_ < 0) return core::fail(core::path_error("open", folder, errno));
  out->socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  out->stop_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const auto failed = [&] { return core::fail(core::path_error("listen at", folder / socket_name, errno)); };
  if (out->socket_ < 0 || out->stop_ < 0) return failed();
  const sockaddr_un at = address_in(out->folder_, folder);
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_served = probe >= 0 && ::connect(probe, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  if (probe >= 0) ::close(probe);
  if (is_served)
    return core::fail(error_kind::bad_input, fmt::format("'{}': another run is at work there", folder.string()));
  ::unlinkat(out->folder_, socket_name, 0);  // removes the socket of a run that was killed
  const mode_t before = ::umask(0177);
  const int bound = ::bind(out->socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  ::umask(before);
  if (bound != 0 || ::listen(out->socket_, questions_max) != 0) return failed();
  try {
    out->thread_ = std::thread([s = out.get()] { s->serve(); });
  } catch (const std::system_error& e) {
    return core::fail(error_kind::limit, std::string("cannot start a thread that answers questions: ") + e.what());
  }
  return out;
}

ask_socket::~ask_socket() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof one);
    thread_.join();
    ::unlinkat(folder_, socket_name, 0);
  }
  for (const int fd : {socket_, stop_, folder_})
    if (fd >= 0) ::close(fd);
}

bool ask_socket::go_on(client& c, bool ready) const {
  if (!c.line.empty()) return send_rest(c);
  if (ready && !c.answer) {
    char buffer[1024];
    const ssize_t n = ::read(c.fd, buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n > 0) c.question.append(buffer, static_cast<size_t>(n));
    if (const auto end = c.question.find('\n'); end != std::string::npos)
      c.answer = answer_to(c.question.substr(0, end));
    else if (c.question.size() > question_bytes_max)
      return false;
  }
  if (!c.answer) return core::now_ns() - c.since_ns < question_ns_max;
  auto said = said_by(c.answer);
  if (!said) {
    char gone = 0;  // detects a client that has closed its connection
    return ::recv(c.fd, &gone, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
  }
  c.line = std::move(*said) + "\n";
  c.since_ns = core::now_ns();
  return send_rest(c);
}

pending_answer ask_socket::answer_to(const std::string& question) const {
  pending_answer out;
  const auto said = said_by([&]() -> std::optional<std::string> {
    out = answer_(question);
    return std::nullopt;
  });
  if (said) out = [why = *said] { return std::optional(why); };
  return out;
}

// Sends the rest of an answer; the answer of many ranks is larger than a socket accepts at once.
bool ask_socket::send_rest(client& c) {
  const ssize_t n = ::send(c.fd, c.line.data() + c.sent, c.line.size() - c.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
  if (n > 0) c.sent += static_cast<size_t>(n);
  return c.sent < c.line.size() && core::now_ns() - c.since_ns < answer_ns_max;
}

void ask_socket::serve() {
  std::list<client> clients;
  for (;;) {
    std::vector<pollfd> on{{stop_, POLLIN, 0},
                           {socket_, static_cast<short>(clients.size() < questions_max ? POLLIN : 0), 0}};
    for (const auto& c : clients)
      on.push_back({c.fd, static_cast<short>(!c.line.empty() ? POLLOUT : c.answer ? 0 : POLLIN), 0});
    ::poll(on.data(), on.size(), clients.empty() ? -1 : looks_every_ms);
    if (on[0].revents != 0) break;
    size_t i = 2;
    for (auto c = clients.begin(); c != clients.end(); ++i) {
      const bool stays = go_on(*c, i < on.size() && on[i].revents != 0);
      if (!stays) ::close(c->fd);
      c = stays ? std::next(c) : clients.erase(c);
    }
    if ((on[1].revents & POLLIN) == 0) continue;
    const int fd = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) clients.push_back({.fd = fd, .question = {}, .answer = {}, .since_ns = core::now_ns()});
  }
  for (const auto& c : clients) ::close(c.fd);
}

core::result<std::string> ask_run(const std::filesystem::path& folder, const std::string& question) {
  const int in = open_folder(folder);
  if (in < 0)
    return core::fail(error_kind::bad_input, fmt::format("'{}': wanted the folder of a run (its `output`), got: {}",
                                                         folder.string(), std::strerror(errno)));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un at = address_in(in, folder);
  const bool there = fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  const int why = errno;
  ::close(in);
  std::string out;
  if (there) {
    const std::string line = question + "\n";
    (void)::send(fd, line.data(), line.size(), MSG_NOSIGNAL);
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(n));
  }
  if (fd >= 0) ::close(fd);
  if (!there)
    return core::fail(error_kind::bad_input,
                      fmt::format("'{}': no run is at work there ({}): start it with `troupe train`", folder.string(),
                                  why == ENOENT ? "it has no socket" : std::strerror(why)));
  if (out.empty() || out.back() != '\n')
    return core::fail(error_kind::io, fmt::format("'{}': the run ended before it answered", folder.string()));
  out.pop_back();
  return out;
}

}  // namespace troupe::apps
