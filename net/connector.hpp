// Opens connections, on both ends: tries addresses, does the TLS handshake, lets both ends exchange first messages, and
// passes accepted connections to the caller. Owns the limits of the opening: the deadline, the number of connections at
// once, and the cost of connections from unknown programs.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "net/io_loop.hpp"
#include "net/tls_stream.hpp"

namespace troupe::net {

/// Exchanges the first messages between two ends after the TLS handshake, before the caller receives the connection.
class first_words {
 public:
  virtual ~first_words() = default;
  /// Reads and writes first messages without blocking, and reads no byte that follows them. Returns true when the first
  /// messages of both ends are complete. Bytes written before an error are still sent.
  virtual core::result<bool> advance(tls_stream& with) = 0;
};

/// An open connection after its TLS handshake.
struct connection {
  std::shared_ptr<watched> socket;
  std::unique_ptr<tls_stream> tls;  ///< TLS stream over the socket; read it before waiting, as it may buffer bytes
  std::string address;              ///< address of the connection's other end
};

/// Limits for opening connections.
struct connector_options {
  size_t buffer_bytes = size_t{64} << 10;  ///< size of a TLS stream's buffer in each direction, in bytes
  /// Limit of the unsent bytes of one socket that the system buffers; 0: the system's default.
  int queue_bytes = 0;
  int64_t deadline_ns = 5'000'000'000;  ///< longest time that opening one connection may take, with its handshake
  /// Largest number of incoming connections that are being opened at once; one more closes the oldest of them.
  size_t at_once = 256;
};

/// Listens for connections and connects to hosts. All functions but the constructor and `listen` are called on the
/// loop's thread. Before the object is destroyed, call `close` or stop the loop.
class connector {
 public:
  using first_words_maker = std::function<std::unique_ptr<first_words>()>;
  using hand_on = std::function<void(core::result<connection>, std::unique_ptr<first_words>)>;

  connector(io_loop& loop, connector_options options) : loop_(loop), options_(options) {}
  ~connector();
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  /// Listens, at most once, and returns the port. `tell` receives each opened connection, or the reason why a
  /// connection was refused. Callable from any thread. Errors: bad_input, limit.
  core::result<uint16_t> listen(const std::string& at, uint16_t port, tls_options options, first_words_maker make,
                                hand_on tell);
  /// Connects to a host; `tell` receives the connection or an error that names host and port. `within_ns`: time limit;
  /// 0: connector_options::deadline_ns.
  void connect(const std::string& host, uint16_t port, tls_options options, std::unique_ptr<first_words> words,
               int64_t within_ns, hand_on tell);

  /// Stops listening and closes all connections that are being opened. No callback is called any more.
  void close();

 private:
  class beginning;
  friend class beginning;

  void accept();
  void wait_for_others();

  io_loop& loop_;
  connector_options options_;
  std::shared_ptr<watched> listening_;
  std::unique_ptr<timer> pause_;
  tls_options accepts_;
  first_words_maker make_;
  hand_on tell_;
  /// Connections that are being opened: incoming ones, in order of arrival; outgoing ones.
  std::list<std::shared_ptr<beginning>> others_, own_;
};

}  // namespace troupe::net
