#include "net/tls_stream.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/system_error.hpp"

namespace troupe::net {
namespace {

/// Largest content of a TLS record; largest size of an encrypted record in the buffer; room that stays free for records
/// that OpenSSL itself sends. All are in bytes.
constexpr size_t record_bytes_max = size_t{16} << 10, record_room = record_bytes_max + 512, spare_room = 2048;
/// Written bytes after which a stream changes its key; AES-GCM's limit is 2^24.5 records per key.
constexpr uint64_t key_bytes = uint64_t{16} << 30;
constexpr uint8_t handshake_record = 0x16, alert_record = 0x15;

bool is_of(int reason, std::initializer_list<int> reasons) {
  return std::ranges::find(reasons, reason) != reasons.end();
}

/// Returns a text for OpenSSL's error `reason`: a clearer one for common errors, else OpenSSL's own text `theirs`.
std::string words_of(int reason, const char* theirs) {
  if (is_of(reason, {SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST, SSL_R_WRONG_VERSION_NUMBER}))
    return "it does not speak TLS";
  if (is_of(reason, {SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_UNKNOWN_PROTOCOL}))
    return "it requires another version of TLS than 1.3";
  if (reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION) return "it refuses TLS 1.3";
  return theirs == nullptr ? "it sends bytes that are not TLS" : theirs;
}

}  // namespace

/// OpenSSL BIO whose read and write functions call `take` and `give` of a tls_stream.
struct stream_bio {
  static tls_stream& of(BIO* b) { return *static_cast<tls_stream*>(BIO_get_data(b)); }
  static int write(BIO* b, const char* from, int bytes) {
    BIO_clear_retry_flags(b);
    const int n = of(b).give(from, bytes);
    if (n < 0) BIO_set_retry_write(b);
    return n;
  }
  static int read(BIO* b, char* to, int bytes) {
    BIO_clear_retry_flags(b);
    const int n = of(b).take(to, bytes);
    if (n < 0) BIO_set_retry_read(b);
    return n;
  }
  static long control(BIO* b, int what, long, void*) {
    if (what == BIO_CTRL_EOF) return of(b).ended_ ? 1 : 0;
    return what == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static BIO_METHOD* method() {
    static BIO_METHOD* const m = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "troupe");
      if (made != nullptr) {
        BIO_meth_set_write(made, write);
        BIO_meth_set_read(made, read);
        BIO_meth_set_ctrl(made, control);
      }
      return made;
    }();
    return m;
  }
};

std::string openssl_failure() {
  std::string out;
  while (const unsigned long code = ERR_get_error()) {
    const char* const text = ERR_reason_error_string(code);
    if (out.empty()) out = words_of(ERR_GET_REASON(code), text);
  }
  return out;
}

core::result<tls_options> make_tls_options(tls_side side) {
  tls_options out(SSL_CTX_new(side == tls_side::connects ? TLS_client_method() : TLS_server_method()), SSL_CTX_free);
  if (out == nullptr || SSL_CTX_set_min_proto_version(out.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(out.get(),
                               "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(out.get(), 0) != 1)
    return core::fail(core::error_kind::limit, "cannot prepare TLS: " + openssl_failure());
  // No session is resumed, so every handshake authenticates the other end.
  SSL_CTX_set_session_cache_mode(out.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(out.get(), SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(out.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_max_cert_list(out.get(), 16 << 10);
  return out;
}

void tls_stream::free_ssl::operator()(SSL* s) const { SSL_free(s); }

tls_stream::tls_stream(tls_options options, int socket, size_t buffer_bytes)
    : options_(std::move(options)),
      socket_(socket),
      capacity_(std::max(buffer_bytes, 2 * record_room + spare_room)),
      out_(new char[capacity_]) {}  // not initialised, so the pages of an unused buffer occupy no memory

tls_stream::~tls_stream() = default;

core::result<std::unique_ptr<tls_stream>> tls_stream::make(const tls_options& options, tls_side side, int socket,
                                                           size_t buffer_bytes) {
  ERR_clear_error();
  std::unique_ptr<tls_stream> out(new tls_stream(options, socket, buffer_bytes));
  out->ssl_.reset(SSL_new(options.get()));
  BIO* const b = stream_bio::method() == nullptr ? nullptr : BIO_new(stream_bio::method());
  if (out->ssl_ == nullptr || b == nullptr) {
    BIO_free(b);
    return core::fail(core::error_kind::limit, "cannot begin TLS: " + openssl_failure());
  }
  BIO_set_data(b, out.get());
  BIO_set_init(b, 1);
  SSL_set_bio(out->ssl_.get(), b, b);
  SSL_set_read_ahead(out->ssl_.get(), 1);
  SSL_set_default_read_buffer_len(out->ssl_.get(), out->capacity_);
  side == tls_side::connects ? SSL_set_connect_state(out->ssl_.get()) : SSL_set_accept_state(out->ssl_.get());
  return out;
}

/// Reads from the socket directly into OpenSSL's read-ahead buffer, which is as large as the stream's buffer.
int tls_stream::take(char* to, int bytes) {
  if (ended_) return 0;
  ssize_t n = 0;
  do n = ::recv(socket_, to, static_cast<size_t>(bytes), 0);
  while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return -1;
  if (n < 0) socket_error_ = errno;
  if (n <= 0) {
    ended_ = true;
    return 0;
  }
  if (first_byte_ < 0) first_byte_ = static_cast<unsigned char>(*to);
  return static_cast<int>(n);
}

int tls_stream::give(const char* from, int bytes) {
  if (finished_) return bytes;  // discards the bytes, because nothing is sent after the end
  if (room() < static_cast<size_t>(bytes)) compact();
  const size_t n = std::min(static_cast<size_t>(bytes), room());
  if (n == 0) return -1;
  std::memcpy(&out_[end_], from, n);
  end_ += n;
  return static_cast<int>(n);
}

void tls_stream::compact() {
  if (begin_ == 0) return;
  std::memmove(out_.get(), &out_[begin_], end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

core::error tls_stream::failure(int returned) {
  const int why = SSL_get_error(ssl_.get(), returned);
  if (why == SSL_ERROR_ZERO_RETURN) return {core::error_kind::peer_lost, "it was closed"};
  if (ended_ && why != SSL_ERROR_SSL)
    return {core::error_kind::peer_lost, socket_error_ != 0 ? core::system_message(socket_error_) : "it was closed"};
  if (ended_ && ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    ERR_clear_error();
    return {core::error_kind::peer_lost, socket_error_ != 0 ? core::system_message(socket_error_) : "it was closed"};
  }
  const bool plain = is_plain();
  const std::string said = openssl_failure();
  return {core::error_kind::mismatch, plain          ? "it does not speak TLS"
                                      : said.empty() ? "it sends bytes that are not TLS"
                                                     : said};
}

bool tls_stream::is_plain() const {
  return first_byte_ >= 0 && first_byte_ != handshake_record && first_byte_ != alert_record;
}

core::result<bool> tls_stream::handshake() {
  ERR_clear_error();
  const int n = SSL_do_handshake(ssl_.get());
  if (n == 1) return true;
  const int why = SSL_get_error(ssl_.get(), n);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return false;
  return core::fail(failure(n));
}

core::result<size_t> tls_stream::read(std::span<std::byte> to) {
  ERR_clear_error();
  size_t got = 0;
  const int n = SSL_read_ex(ssl_.get(), to.data(), to.size(), &got);
  if (n == 1) return got;
  const int why = SSL_get_error(ssl_.get(), n);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return 0;
  return core::fail(failure(n));
}

core::result<size_t> tls_stream::write(std::span<const std::byte> from) {
  ERR_clear_error();
  size_t done = 0;
  while (done < from.size()) {
    if (room() < record_room + spare_room) compact();
    if (room() < record_room + spare_room) break;
    size_t n = 0;
    if (written_ >= key_bytes) {
      written_ = 0;
      SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    const int good = SSL_write_ex(ssl_.get(), &from[done], std::min(from.size() - done, record_bytes_max), &n);
    if (good != 1) {
      const int why = SSL_get_error(ssl_.get(), good);
      if (why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ) break;
      return core::fail(failure(good));
    }
    done += n;
    written_ += n;
  }
  return done;
}

core::result<void> tls_stream::flush() {
  while (begin_ < end_) {
    const ssize_t n = ::send(socket_, &out_[begin_], end_ - begin_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0) return core::fail(core::error_kind::peer_lost, core::system_message(errno));
    begin_ += static_cast<size_t>(n);
  }
  begin_ = end_ = 0;
  return {};
}

void tls_stream::say_end() {
  ERR_clear_error();
  if (SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

void tls_stream::answer_plainly(std::string_view text) {
  begin_ = end_ = 0;
  const size_t n = std::min(text.size(), capacity_);
  std::memcpy(out_.get(), text.data(), n);
  end_ = n;
  finished_ = true;
}

}  // namespace troupe::net
