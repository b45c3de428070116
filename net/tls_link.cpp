#include "net/tls_link.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <deque>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "net/address.hpp"
#include "net/graceful_close.hpp"

namespace troupe::net {
namespace {

using cluster::frame_bytes_max;
using cluster::waiting_bytes_max;

/// Longest time for which queued bytes are still sent after their link was destroyed, in nanoseconds.
constexpr int64_t close_ns = 2'000'000'000;
/// A link stops reading from its connection while it holds this number of received bytes that take() has not returned.
constexpr size_t untaken_bytes_max = size_t{64} << 20;
/// Number of bytes that one link reads before the loop serves its other links.
constexpr size_t turn_bytes = size_t{1} << 20;

}  // namespace

links_room::~links_room() {
  std::unique_lock lock(mutex_);
  left_.wait_for(lock, std::chrono::nanoseconds(close_ns), [&] { return links_ == 0; });
  lock.unlock();
  loop_->stop();
}
void links_room::enter() {
  const std::lock_guard lock(mutex_);
  ++links_;
}
void links_room::leave() {
  const std::lock_guard lock(mutex_);
  --links_;
  left_.notify_all();
}

/// Queues and connection of a link, shared by the thread that uses the link and the loop's thread.
class tls_link::traffic : public std::enable_shared_from_this<traffic> {
 public:
  traffic(links_room& room, connection c)
      : room_(room), with_(std::move(c)), event_(cluster::own(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {
    room_.enter();
  }

  // ---- Threads that use the link call the following functions.

  core::result<void> send(std::string frame) {
    const std::lock_guard lock(mutex_);
    if (error_) return core::fail(*error_);
    if (frame.size() > frame_bytes_max || waiting_bytes_ + frame.size() > waiting_bytes_max)
      return core::fail(
          core::error_kind::limit,
          fmt::format("a message to another machine: wanted at most {} bytes, and {} that wait, got {} and {}",
                      frame_bytes_max, waiting_bytes_max, frame.size(), waiting_bytes_));
    waiting_bytes_ += frame.size();
    out_.push_back(std::move(frame));
    wake();
    return {};
  }

  /// Returns the bytes received since the last call and, if the link has ended, the reason of the end.
  std::pair<std::string, std::optional<core::error>> take() {
    const std::lock_guard lock(mutex_);
    uint64_t count = 0;
    (void)!::read(event_->number(), &count, sizeof count);
    if (error_) tell();  // after the end of the link, its descriptor stays readable, like that of a closed socket
    if (came_.size() >= untaken_bytes_max) wake();
    return {std::exchange(came_, {}), error_};
  }

  [[nodiscard]] bool has_waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_bytes_ > 0 && !error_;
  }
  [[nodiscard]] int number() const { return event_->number(); }

  /// Ends the link because of an error in the received bytes, which the link's user has found.
  void fail(const core::error& why) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = why;
    tell();
    room_.loop().post([self = shared_from_this()] { self->close(); });
  }
  void finish() {
    room_.loop().post([self = shared_from_this()] {
      self->is_finishing_ = true;
      self->turn();
    });
  }
  void begin() {
    room_.loop().post([self = shared_from_this()] { self->turn(); });
  }

 private:
  // ---- Only the loop's thread calls the following functions, except tell() and wake().

  void turn() {
    if (with_.socket == nullptr) return;
    core::result<bool> more = false;
    try {
      if (auto written = write(); !written) more = core::fail(written.error());
      if (more && !is_finishing_) more = read();
    } catch (const std::bad_alloc&) {
      more = core::fail(core::error_kind::limit, "not enough memory for the bytes that arrive");
    }
    if (!more) return end(more.error());
    if (is_finishing_ && current_.empty() && waiting_bytes() == 0) return leave();
    if (*more) room_.loop().post([self = shared_from_this()] { self->turn(); });
    if (!*more && !is_full_ && !is_finishing_)
      with_.socket->when_readable([self = shared_from_this()] { self->turn(); });
    if (with_.tls->has_unsent()) with_.socket->when_writable([self = shared_from_this()] { self->turn(); });
    if (is_finishing_ && close_timer_ == nullptr) {
      close_timer_ = room_.loop().make_timer();
      close_timer_->after(close_ns, [self = shared_from_this()] { self->close(); });
    }
  }

  core::result<void> write() {
    {
      const std::lock_guard lock(mutex_);
      is_woken_ = false;
    }
    for (;;) {
      if (sent_ == current_.size() && !next()) return with_.tls->flush();
      TROUPE_ASSIGN(const auto n, with_.tls->write(std::as_bytes(std::span(current_).subspan(sent_))));
      sent_ += n;
      {
        const std::lock_guard lock(mutex_);
        waiting_bytes_ -= n;
      }
      if (sent_ == current_.size()) continue;
      if (auto done = with_.tls->flush(); !done || with_.tls->has_unsent()) return done;
    }
  }
  bool next() {
    const std::lock_guard lock(mutex_);
    sent_ = 0;
    current_.clear();
    if (out_.empty()) return false;
    current_ = std::move(out_.front());
    out_.pop_front();
    return true;
  }

  /// Reads bytes until none are left, the limit of untaken bytes or turn_bytes is reached. Returns true if it stops
  /// because of turn_bytes.
  core::result<bool> read() {
    thread_local std::array<std::byte, size_t{16} << 10> buffer;
    if (has_untaken()) return false;
    for (size_t read = 0; read < turn_bytes;) {
      TROUPE_ASSIGN(const auto n, with_.tls->read(buffer));
      if (n == 0) return false;
      read += n;
      const std::lock_guard lock(mutex_);
      came_.append(reinterpret_cast<const char*>(buffer.data()), n);
      tell();
      is_full_ = came_.size() >= untaken_bytes_max;
      if (is_full_) return false;
    }
    return true;
  }
  bool has_untaken() {
    const std::lock_guard lock(mutex_);
    is_full_ = came_.size() >= untaken_bytes_max;
    return is_full_;
  }

  void end(const core::error& why) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = core::error{why.kind, why.text};
      tell();
    }
    close();
  }
  void leave() {
    close_gracefully(room_.loop(), {std::exchange(with_.socket, nullptr), std::move(with_.tls), {}}, close_ns,
                     [self = shared_from_this()] { self->room_.leave(); });
    close_timer_.reset();
  }
  void close() {
    const auto socket = std::exchange(with_.socket, nullptr);
    if (socket == nullptr) return;
    socket->close();
    with_.tls.reset();
    room_.leave();
  }

  [[nodiscard]] uint64_t waiting_bytes() const {
    const std::lock_guard lock(mutex_);
    return waiting_bytes_;
  }
  /// Makes the link's descriptor readable. Requires that the caller holds mutex_.
  void tell() const {
    const uint64_t one = 1;
    (void)!::write(event_->number(), &one, sizeof one);
  }
  /// Makes the loop's thread call turn(), which reads and writes, unless a call is pending. Requires that the caller
  /// holds mutex_.
  void wake() {
    if (std::exchange(is_woken_, true)) return;
    room_.loop().post([self = shared_from_this()] { self->turn(); });
  }

  links_room& room_;
  connection with_;
  cluster::shared_descriptor event_;
  std::unique_ptr<timer> close_timer_;
  std::string current_;  ///< frame that is being written into the stream
  size_t sent_ = 0;
  bool is_full_ = false, is_finishing_ = false;

  mutable std::mutex mutex_;
  std::deque<std::string> out_;
  uint64_t waiting_bytes_ = 0;
  std::string came_;
  std::optional<core::error> error_;
  bool is_woken_ = false;
};

namespace {

std::string host_of(int socket) {
  const auto own = address_of(socket);
  return own ? own->host() : std::string();
}

}  // namespace

tls_link::tls_link(std::shared_ptr<links_room> room, connection c, std::string name, std::string introduction)
    : room_(std::move(room)),
      name_(std::move(name)),
      introduction_(std::move(introduction)),
      address_(c.address),
      own_address_(host_of(c.socket->number())),
      traffic_(std::make_shared<traffic>(*room_, std::move(c))) {
  traffic_->begin();
}

tls_link::~tls_link() { traffic_->finish(); }

int tls_link::number() const { return traffic_->number(); }
bool tls_link::is_sending() const { return traffic_->has_waiting(); }

core::result<void> tls_link::send(cluster::parcel p) {
  if (!p.with.empty())
    return core::fail(core::error_kind::bad_input,
                      fmt::format("a message to another machine: wanted no descriptors, got {}", p.with.size()));
  return traffic_->send(cluster::frame_of(p.what, 0));
}

core::result<std::vector<cluster::parcel>> tls_link::receive() {
  auto [bytes, end] = traffic_->take();
  in_.add(bytes);
  std::vector<cluster::parcel> out;
  for (;;) {
    auto next = in_.next();
    if (!next) {
      traffic_->fail(next.error());
      return core::fail(next.error());
    }
    if (!*next) break;
    out.push_back(std::move(**next));
  }
  if (end && out.empty()) return core::fail(end->in("the link to '" + name_ + "' (" + address_ + ")"));
  return out;
}

}  // namespace troupe::net
