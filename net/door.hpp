// How connections begin, on both ends: addresses are tried, TLS shakes hands, both ends say what they have to say, and
// what is good is handed on. Owns the limits of all this: the deadline, how many at once, what strangers cost.
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

/// What two ends say to each other behind the handshake, before the connection is anybody's.
class first_words {
 public:
  virtual ~first_words() = default;
  /// Goes as far as the stream lets it, and reads nothing beyond; true: all is said. What it wrote before an error is
  /// still sent.
  virtual core::result<bool> advance(tls_stream& with) = 0;
};

struct connection {
  std::shared_ptr<watched> socket;
  std::unique_ptr<tls_stream> tls;  ///< may hold bytes that have come: read before waiting
  std::string address;              ///< the other end's
};

struct door_options {
  size_t buffer_bytes = size_t{64} << 10;  ///< of a stream, each way
  int queue_bytes = 0;                     ///< bytes that the system keeps unsent; 0: as it likes
  int64_t deadline_ns = 5'000'000'000;     ///< for all of a beginning
  size_t at_once = 256;                    ///< beginnings of others; then the oldest gives way
};

/// All but the constructor and `listen` on the loop's thread; `close`, or stop the loop, before a door goes.
class door {
 public:
  using first_words_maker = std::function<std::unique_ptr<first_words>()>;
  using hand_on = std::function<void(core::result<connection>, std::unique_ptr<first_words>)>;

  door(io_loop& loop, door_options options) : loop_(loop), options_(options) {}
  ~door();
  door(const door&) = delete;
  door& operator=(const door&) = delete;

  /// Once. Each connection is handed on, or why it was refused. Gives the port. Any thread. Errors: bad_input, limit.
  core::result<uint16_t> listen(const std::string& at, uint16_t port, tls_options options, first_words_maker make,
                                hand_on tell);
  /// `within_ns`: 0: the door's deadline. The text of errors says where.
  void connect(const std::string& host, uint16_t port, tls_options options, std::unique_ptr<first_words> words,
               int64_t within_ns, hand_on tell);

  /// Beginnings end without a word, and nothing is handed on any more.
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
  std::list<std::shared_ptr<beginning>> others_, own_;  ///< others in the order in which they came
};

}  // namespace troupe::net
