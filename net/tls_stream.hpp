// TLS 1.3 over a connected socket that does not block. Owns the bytes between the socket and OpenSSL: large buffers of
// its own, so that many records go with one call of the system; and what OpenSSL's errors mean. Who the other end is,
// the handshake's options say (identity.hpp, term_secret.hpp); when to go on, the caller.
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

/// Options of handshakes, which many connections share.
using tls_options = std::shared_ptr<SSL_CTX>;
enum class tls_side : uint8_t { connects, accepts };

/// What both kinds of links want: TLS 1.3 alone, no tickets, AES-128-GCM first. Errors: limit.
core::result<tls_options> make_tls_options(tls_side side);
/// What OpenSSL says of its last failure in this thread, which is forgotten.
std::string openssl_failure();

/// One thread at a time.
class tls_stream {
 public:
  /// `socket` is the caller's and stays open as long. Errors: limit.
  static core::result<std::unique_ptr<tls_stream>> make(const tls_options& options, tls_side side, int socket,
                                                        size_t buffer_bytes);
  ~tls_stream();
  tls_stream(const tls_stream&) = delete;
  tls_stream& operator=(const tls_stream&) = delete;

  /// Goes as far as the other end lets it; true: it is done. Errors: peer_lost, mismatch: in words for people.
  core::result<bool> handshake();
  /// What has come; 0: nothing now. Errors: peer_lost, where it was closed; mismatch, for bytes that are none of TLS.
  core::result<size_t> read(std::span<std::byte> to);
  /// Takes as much as there is room for and sends nothing yet. Errors: peer_lost, mismatch.
  core::result<size_t> write(std::span<const std::byte> from);
  /// Sends as much as the system takes. Errors: peer_lost.
  core::result<void> flush();
  /// Something waits to be sent: `flush` when the socket is writable.
  [[nodiscard]] bool has_unsent() const { return begin_ < end_; }
  /// Says that nothing more will be written; `flush` sends it.
  void say_end();
  /// To one that speaks no TLS: these bytes as they are, and nothing more.
  void answer_plainly(std::string_view text);
  /// Whether the first byte that came begins no TLS.
  [[nodiscard]] bool is_plain() const;

  [[nodiscard]] SSL* get() const { return ssl_.get(); }
  /// A new key for what is written after so many bytes, long before AES-GCM's limit of 2^24.5 records.
  void renew_key_every(uint64_t bytes) { key_bytes_ = bytes; }

 private:
  struct free_ssl {
    void operator()(SSL* s) const;
  };
  friend struct stream_bio;

  tls_stream(tls_options options, int socket, size_t buffer_bytes);
  int take(char* to, int bytes);          ///< of the socket, for OpenSSL: as a BIO's read
  int give(const char* from, int bytes);  ///< as a BIO's write
  [[nodiscard]] size_t room() const { return capacity_ - end_; }
  void compact();
  core::error failure(int returned);

  tls_options options_;  // with what its callbacks read
  int socket_;
  size_t capacity_;
  std::unique_ptr<char[]> out_;
  size_t begin_ = 0, end_ = 0;
  int first_byte_ = -1, socket_error_ = 0;
  bool ended_ = false, finished_ = false;
  uint64_t key_bytes_ = uint64_t{16} << 30, written_ = 0;
  std::unique_ptr<SSL, free_ssl> ssl_;
};

}  // namespace troupe::net
