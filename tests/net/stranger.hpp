// Opens a connection as a client that is not a process of the job: sends any bytes, or uses TLS with any certificate,
// and reads the answer. The timeout of the constructor limits every wait.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe::net {

class stranger {
 public:
  /// Connects to `port`. `within_ms` limits each wait. The connection comes from the loopback address 127.0.0.1 +
  /// `from`; each address has ports for some thousand connections a minute.
  explicit stranger(uint16_t port, int within_ms = 5000, uint32_t from = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in own = to;
    own.sin_port = 0;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + from);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    must(::bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0);
    must(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    const timeval t{within_ms / 1000, within_ms % 1000 * 1000};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
  }
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;
  ~stranger() {
    ssl_.reset();
    ::close(socket_);
  }

  [[nodiscard]] int socket() const { return socket_; }

  /// Sends all bytes. Returns false if the other end has closed the connection.
  bool say(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ssl_ != nullptr ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
                                        : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  /// Reads until the other end closes the connection, the timeout passes, or `stops_at` bytes have arrived.
  [[nodiscard]] std::string hear(size_t stops_at = SIZE_MAX) const {
    std::string out;
    std::array<char, 4096> part{};
    while (out.size() < stops_at) {
      const size_t most = std::min(part.size(), stops_at - out.size());
      const ssize_t n = ssl_ != nullptr ? SSL_read(ssl_.get(), part.data(), static_cast<int>(most))
                                        : ::recv(socket_, part.data(), most, 0);
      if (n <= 0) break;
      out.append(part.data(), static_cast<size_t>(n));
    }
    return out;
  }
  /// Discards arriving bytes until the other end closes the connection. Returns true if that happens before the
  /// timeout.
  [[nodiscard]] bool is_closed() const {
    std::array<char, 4096> part{};
    for (;;) {
      const ssize_t n = ::recv(socket_, part.data(), part.size(), 0);
      if (n == 0) return true;
      if (n < 0) return errno == ECONNRESET || errno == EPIPE;
    }
  }

  /// Begins TLS with the key and certificate in a host's folder, or without a certificate if `folder` is empty. Returns
  /// false if the handshake fails.
  bool begin_tls(const std::filesystem::path& folder = {}, int version = TLS1_3_VERSION) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> c(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    SSL_CTX_set_max_proto_version(c.get(), version);
    if (!folder.empty()) {
      BOOST_TEST_REQUIRE(SSL_CTX_use_certificate_file(c.get(), (folder / "host.crt").c_str(), SSL_FILETYPE_PEM) == 1);
      BOOST_TEST_REQUIRE(SSL_CTX_use_PrivateKey_file(c.get(), (folder / "host.key").c_str(), SSL_FILETYPE_PEM) == 1);
    }
    ssl_.reset(SSL_new(c.get()));
    SSL_set_fd(ssl_.get(), socket_);
    return SSL_connect(ssl_.get()) == 1;
  }

 private:
  /// Throws if `done` is false, after a failed socket call. Does not use Boost.Test, which does not support the threads
  /// in which some connections run.
  static void must(bool done) {
    if (!done) throw std::runtime_error("a stranger's socket");
  }
  struct free_ssl {
    void operator()(SSL* s) const { SSL_free(s); }
  };
  int socket_;
  std::unique_ptr<SSL, free_ssl> ssl_;
};

}  // namespace troupe::net
