#include "net/connector.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "net/address.hpp"
#include "net/graceful_close.hpp"

namespace troupe::net {
namespace {

/// Longest time for sending the last bytes of a refused connection; pause before the next accept if the system has no
/// free descriptors. Both are in nanoseconds.
constexpr int64_t last_bytes_ns = 1'000'000'000, pause_ns = 100'000'000;
constexpr int accepted_at_once = 64;

constexpr std::string_view plain_answer =
    "troupe: this port speaks TLS 1.3 to processes of its job, and nothing else\r\n";

std::string seconds_of(int64_t ns) { return fmt::format("{} s", ns / 1'000'000'000); }

}  // namespace

/// One connection that is being opened. Ends when the connection is passed to the caller, or has failed and its last
/// bytes are sent.
class connector::beginning : public std::enable_shared_from_this<beginning> {
 public:
  beginning(connector& of, tls_side side, tls_options options, std::unique_ptr<first_words> words, hand_on tell)
      : of_(of),
        side_(side),
        options_(std::move(options)),
        words_(std::move(words)),
        tell_(std::move(tell)),
        deadline_(of.loop_.make_timer()) {}

  void expect_within(int64_t ns) {
    deadline_->after(ns, [self = shared_from_this(), ns] {
      self->fail({core::error_kind::peer_lost, "the handshake took longer than " + seconds_of(ns)}, last_words::none);
    });
  }

  void accept(int socket) {
    where_ = peer_of(socket).text();
    socket_ = of_.loop_.watch(socket);
    begin();
  }

  void connect(const std::string& host, uint16_t port) {
    where_ = place_text(host, port);
    of_.loop_.resolve(host, port, [self = shared_from_this()](core::result<std::vector<address>> found) {
      if (self->over_) return;
      if (!found) return self->fail(found.error(), last_words::none);
      self->addresses_ = std::move(*found);
      self->try_next({core::error_kind::peer_lost, "no address"});
    });
  }

  /// Closes the connection without a callback, because connector::close() was called.
  void forget() {
    tell_ = nullptr;
    over_ = is_forgotten_ = true;
    deadline_->cancel();
    if (const auto socket = std::exchange(socket_, nullptr)) socket->close();
  }

  void give_way() {
    // The connection was refused, and its last bytes are being sent within last_bytes_ns: it no longer counts as
    // opening.
    if (is_leaving_) return leave();
    fail({core::error_kind::limit, fmt::format("more than {} handshakes at once", of_.options_.at_once)},
         last_words::none);
  }

 private:
  enum class last_words : uint8_t { none, sent };

  void try_next(const core::error& before) {
    if (addresses_.empty()) return fail(before, last_words::none);
    const address to = addresses_.front();
    addresses_.erase(addresses_.begin());
    const auto socket = begin_connect(to);
    if (!socket) return try_next(socket.error());
    socket_ = of_.loop_.watch(*socket);
    socket_->when_writable([self = shared_from_this()] {
      if (self->over_) return;
      if (const auto there = connected(self->socket_->number()); !there) {
        self->socket_->close();
        return self->try_next(there.error());
      }
      self->begin();
    });
  }

  void begin() {
    prepare(socket_->number(), of_.options_.queue_bytes);
    auto made = tls_stream::make(options_, side_, socket_->number(), of_.options_.buffer_bytes);
    if (!made) return fail(made.error(), last_words::none);
    tls_ = std::move(*made);
    advance();
  }

  void advance() {
    if (over_) return;
    core::result<bool> done = true;
    if (!shaken_) {
      done = tls_->handshake();
      if (done && *done) shaken_ = true;
    }
    if (done && *done && words_ != nullptr) done = words_->advance(*tls_);
    if (!done) return fail(done.error(), last_words::sent);
    if (const auto sent = tls_->flush(); !sent && !*done) return fail(sent.error(), last_words::none);
    if (*done) return end(connection{std::exchange(socket_, nullptr), std::move(tls_), where_});
    socket_->when_readable([self = shared_from_this()] { self->advance(); });
    if (tls_->has_unsent()) socket_->when_writable([self = shared_from_this()] { self->advance(); });
  }

  void end(core::result<connection> what) {
    over_ = true;
    deadline_->cancel();
    const auto tell = std::exchange(tell_, nullptr);
    if (what) leave();
    if (tell) tell(std::move(what), std::move(words_));
  }

  void fail(core::error why, last_words said) {
    const auto self = shared_from_this();
    if (!std::exchange(over_, true)) end(core::fail(why.in(where_)));
    if (said == last_words::none || tls_ == nullptr || socket_ == nullptr) {
      if (const auto socket = std::exchange(socket_, nullptr)) socket->close();
      return leave();
    }
    if (tls_->is_plain() && side_ == tls_side::accepts) tls_->answer_plainly(plain_answer);
    is_leaving_ = true;
    close_gracefully(of_.loop_, {std::exchange(socket_, nullptr), std::move(tls_), where_}, last_bytes_ns,
                     [self] { self->leave(); });
  }

  void leave() {
    if (is_forgotten_) return;
    const auto self = shared_from_this();
    (side_ == tls_side::accepts ? of_.others_ : of_.own_).remove(self);
  }

  connector& of_;
  tls_side side_;
  tls_options options_;
  std::unique_ptr<first_words> words_;
  hand_on tell_;
  std::unique_ptr<timer> deadline_;
  std::string where_;
  std::vector<address> addresses_;
  std::shared_ptr<watched> socket_;
  std::unique_ptr<tls_stream> tls_;
  bool shaken_ = false, is_leaving_ = false, over_ = false, is_forgotten_ = false;
};

connector::~connector() = default;

void connector::close() {
  if (listening_ != nullptr) listening_->close();
  if (pause_ != nullptr) pause_->cancel();
  for (auto* all : {&others_, &own_})
    for (auto& one : std::exchange(*all, {})) one->forget();
}

core::result<uint16_t> connector::listen(const std::string& at, uint16_t port, tls_options options,
                                         first_words_maker make, hand_on tell) {
  TROUPE_ASSIGN(const auto where, numeric_address(at, port));
  TROUPE_ASSIGN(const auto socket, listen_at(where));
  const auto got = address_of(socket);
  if (!got) {
    ::close(socket);
    return core::fail(got.error());
  }
  accepts_ = std::move(options);
  make_ = std::move(make);
  tell_ = std::move(tell);
  pause_ = loop_.make_timer();
  listening_ = loop_.watch(socket);
  loop_.post([this] { wait_for_others(); });
  return got->port();
}

void connector::wait_for_others() {
  listening_->when_readable([this] { accept(); });
}

void connector::accept() {
  for (int i = 0; i < accepted_at_once; ++i) {
    const int socket = accept_from(listening_->number());
    if (socket == -2) return pause_->after(pause_ns, [this] { wait_for_others(); });
    if (socket < 0) break;
    if (others_.size() >= options_.at_once) std::shared_ptr(others_.front())->give_way();
    auto one = std::make_shared<beginning>(*this, tls_side::accepts, accepts_, make_(), tell_);
    others_.push_back(one);
    one->expect_within(options_.deadline_ns);
    one->accept(socket);
  }
  wait_for_others();
}

void connector::connect(const std::string& host, uint16_t port, tls_options options, std::unique_ptr<first_words> words,
                        int64_t within_ns, hand_on tell) {
  auto one =
      std::make_shared<beginning>(*this, tls_side::connects, std::move(options), std::move(words), std::move(tell));
  own_.push_back(one);
  one->expect_within(within_ns > 0 ? within_ns : options_.deadline_ns);
  one->connect(host, port);
}

}  // namespace troupe::net
