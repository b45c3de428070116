// Implements TLS 1.3 over a connected non-blocking socket. Owns the buffers between OpenSSL and the socket, which are
// large so that one system call sends many records; and the meaning of OpenSSL's errors. Leaves authentication to
// the options (identity.hpp, term_secret.hpp), and waiting to the caller.
#pragma once

#include <openssl/ossl_typ.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::net {

/// Options of TLS connections, such as keys and versions; many connections share one object.
using tls_options = std::shared_ptr<SSL_CTX>;
enum class tls_side : uint8_t { connects, accepts };

/// Returns the TLS options that all connections have in common: TLS 1.3 only, no session tickets, AES-128-GCM
/// preferred. Errors: limit.
core::result<tls_options> make_tls_options(tls_side side);
/// Returns the text of OpenSSL's first error in this thread's error queue, and clears the queue.
std::string openssl_failure();

/// A TLS connection. Used by one thread at a time.
class tls_stream {
 public:
  /// Creates a stream. `socket` belongs to the caller and must stay open during the stream's life. Errors: limit.
  static core::result<std::unique_ptr<tls_stream>> make(const tls_options& options, tls_side side, int socket,
                                                        size_t buffer_bytes);
  ~tls_stream();
  tls_stream(const tls_stream&) = delete;
  tls_stream& operator=(const tls_stream&) = delete;

  /// Continues the handshake as far as the other end allows; true when it is complete. Errors: peer_lost, mismatch,
  /// with a message for the user.
  core::result<bool> handshake();
  /// Reads received bytes and returns their number; 0 if there are none now. Errors: peer_lost, if the connection was
  /// closed; mismatch, for bytes that are not TLS.
  core::result<size_t> read(std::span<std::byte> to);
  /// Buffers as many bytes as there is room for, without sending them, and returns their number. Errors: peer_lost,
  /// mismatch.
  core::result<size_t> write(std::span<const std::byte> from);
  /// Sends as many buffered bytes as the socket accepts without blocking. Errors: peer_lost.
  core::result<void> flush();
  /// True if buffered bytes remain to be sent; the caller then calls `flush` when the socket is writable.
  [[nodiscard]] bool has_unsent() const { return begin_ < end_; }
  /// Buffers TLS's close_notify, which announces that nothing more will be written; `flush` sends it.
  void say_end();
  /// Replaces all buffered bytes by `text` without TLS, for an end that does not speak TLS. Nothing else is sent later.
  void answer_plainly(std::string_view text);
  /// True if the first received byte does not begin a TLS record, so that the other end does not speak TLS.
  [[nodiscard]] bool is_plain() const;

  [[nodiscard]] SSL* get() const { return ssl_.get(); }

 private:
  struct free_ssl {
    void operator()(SSL* s) const;
  };
  friend struct stream_bio;

  tls_stream(tls_options options, int socket, size_t buffer_bytes);
  int take(char* to, int bytes);          ///< reads from the socket, for OpenSSL (the BIO's read)
  int give(const char* from, int bytes);  ///< buffers bytes to send, for OpenSSL (the BIO's write)
  [[nodiscard]] size_t room() const { return capacity_ - end_; }
  void compact();
  core::error failure(int returned);

  tls_options options_;  // options of the stream; they own the data that OpenSSL's callbacks read
  int socket_;
  size_t capacity_;
  std::unique_ptr<char[]> out_;
  size_t begin_ = 0, end_ = 0;
  int first_byte_ = -1, socket_error_ = 0;
  bool ended_ = false, finished_ = false;
  uint64_t written_ = 0;  // bytes written since the last change of the key
  std::unique_ptr<SSL, free_ssl> ssl_;
};

}  // namespace troupe::net
