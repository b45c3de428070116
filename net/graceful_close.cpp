#include "net/graceful_close.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace troupe::net {
namespace {

constexpr size_t dropped_bytes_max = size_t{256} << 10;

class graceful_close : public std::enable_shared_from_this<graceful_close> {
 public:
  graceful_close(io_loop& loop, connection c, std::function<void()> then)
      : of_(std::move(c)), then_(std::move(then)), deadline_(loop.make_timer()) {}

  void begin(int64_t within_ns) {
    of_.tls->say_end();
    deadline_->after(within_ns, [self = shared_from_this()] { self->end(); });
    send();
  }

 private:
  void send() {
    if (of_.socket == nullptr) return;
    if (!of_.tls->flush()) return end();
    if (of_.tls->has_unsent()) return of_.socket->when_writable([self = shared_from_this()] { self->send(); });
    ::shutdown(of_.socket->number(), SHUT_WR);
    drop();
  }
  void drop() {
    if (of_.socket == nullptr) return;
    std::array<char, 4096> bytes;
    for (;;) {
      const ssize_t n = ::recv(of_.socket->number(), bytes.data(), bytes.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (n <= 0 || (dropped_ += static_cast<size_t>(n)) > dropped_bytes_max) return end();
    }
    of_.socket->when_readable([self = shared_from_this()] { self->drop(); });
  }
  void end() {
    deadline_->cancel();
    const auto socket = std::exchange(of_.socket, nullptr);
    if (socket == nullptr) return;
    of_.tls.reset();
    socket->close();
    if (const auto then = std::exchange(then_, nullptr)) then();
  }

  connection of_;
  std::function<void()> then_;
  std::unique_ptr<timer> deadline_;
  size_t dropped_ = 0;
};

}  // namespace

void close_gracefully(io_loop& loop, connection c, int64_t within_ns, std::function<void()> then) {
  std::make_shared<graceful_close>(loop, std::move(c), std::move(then))->begin(within_ns);
}

}  // namespace troupe::net
