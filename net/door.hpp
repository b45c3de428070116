// Opens connections, on both ends: tries addresses, does the TLS handshake, lets both ends exchange their first words,
// and passes good connections on. Owns the limits of all this: the deadline, the number of connections at once, and the
// cost of strangers.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "net/io_loop.hpp"
#include "net/tls_stream.hpp"

namespace troupe::net {

/// The exchange of two ends after the handshake, before the connection is passed on.
class first_words {
 public:
  virtual ~first_words() = default;
  /// Continues as far as the stream allows, and reads nothing beyond the exchange. Returns true when the exchange is
  /// complete. Bytes written before an error are still sent.
  virtual core::result<bool> advance(tls_stream& with) = 0;
};

struct connection {
  std::shared_ptr<watched> socket;
  std::unique_ptr<tls_stream> tls;  ///< TLS stream over the socket; may hold received bytes: read it before waiting
  std::string address;              ///< address of the connection's other end
};

struct door_options {
  size_t buffer_bytes = size_t{64} << 10;  ///< bytes of a stream's buffer, in each direction
  /// Limit of the unsent bytes that the system stores; 0: the system's default.
  int queue_bytes = 0;
  int64_t deadline_ns = 5'000'000'000;  ///< longest time that opening one connection may take, with its handshake
  /// Largest number of incoming connections being opened; beyond it, the oldest is closed.
  size_t at_once = 256;
};

/// Listens and connects. All functions but the constructor and `listen` are called on the loop's thread. Before a door
/// is destroyed, call `close` or stop the loop.
class door {
 public:
  using first_words_maker = std::function<std::unique_ptr<first_words>()>;
  using hand_on = std::function<void(core::result<connection>, std::unique_ptr<first_words>)>;

  door(io_loop& loop, door_options options) : loop_(loop), options_(options) {}
  ~door();
  door(const door&) = delete;
  door& operator=(const door&) = delete;

  /// Listens, at most once, and returns the port. `tell` receives each connection, or the reason why it was refused.
  /// Callable from any thread. Errors: bad_input, limit.
  core::result<uint16_t> listen(const std::string& at, uint16_t port, tls_options options, first_words_maker make,
                                hand_on tell);
  /// Connects to a host. `within_ns`: limit; 0: the door's deadline. The text of errors names the host and port.
  void connect(const std::string& host, uint16_t port, tls_options options, std::unique_ptr<first_words> words,
               int64_t within_ns, hand_on tell);

  /// Closes all connections being opened, without a callback; `tell` is not called any more.
  void close();

 private:
  class beginning;
  friend class beginning;

  void accept();
  void wait_for_others();

  io_loop& loop_;
  door_options options_;
  std::shared_ptr<watched> listening_;
  std::unique_ptr<timer> pause_;
  tls_options accepts_;
  first_words_maker make_;
  hand_on tell_;
  /// Connections being opened: incoming ones in order of arrival; outgoing ones.
  std::list<std::shared_ptr<beginning>> others_, own_;
};

}  // namespace troupe::net
