#include "apps/page/secure_channel.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

#include "core/system_error.hpp"

namespace troupe::apps {
namespace {

using outcome = byte_channel::outcome;

class plain_channel final : public byte_channel {
 public:
  explicit plain_channel(int socket) : socket_(socket) {}
  moved_bytes read(char* into, size_t most) override {
    return told(::recv(socket_, into, most, MSG_DONTWAIT), outcome::wants_to_read);
  }
  moved_bytes write(const char* from, size_t bytes) override {
    return told(::send(socket_, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL), outcome::wants_to_write);
  }

 private:
  static moved_bytes told(ssize_t n, outcome later) {
    if (n > 0) return {outcome::moved, static_cast<size_t>(n)};
    return {n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? later : outcome::over, 0};
  }
  int socket_;
};

class plain_maker final : public channel_maker {
 public:
  std::unique_ptr<byte_channel> make(int socket) override { return std::make_unique<plain_channel>(socket); }
  [[nodiscard]] bool is_secure() const override { return false; }
};

class secure_channel final : public byte_channel {
 public:
  explicit secure_channel(SSL* ssl) : ssl_(ssl) {}
  ~secure_channel() override {
    SSL_shutdown(ssl_);  // announces the end; does not block
    ERR_clear_error();
    SSL_free(ssl_);
  }
  secure_channel(const secure_channel&) = delete;
  secure_channel& operator=(const secure_channel&) = delete;
  moved_bytes read(char* into, size_t most) override {
    ERR_clear_error();
    return told(SSL_read(ssl_, into, static_cast<int>(std::min<size_t>(most, INT_MAX))));
  }
  moved_bytes write(const char* from, size_t bytes) override {
    ERR_clear_error();
    return told(SSL_write(ssl_, from, static_cast<int>(std::min<size_t>(bytes, INT_MAX))));
  }

 private:
  moved_bytes told(int n) {
    if (n > 0) return {outcome::moved, static_cast<size_t>(n)};
    const int why = SSL_get_error(ssl_, n);
    return {why == SSL_ERROR_WANT_READ    ? outcome::wants_to_read
            : why == SSL_ERROR_WANT_WRITE ? outcome::wants_to_write
                                          : outcome::over,
            0};
  }
  SSL* ssl_;
};

class secure_maker final : public channel_maker {
 public:
  explicit secure_maker(SSL_CTX* context) : context_(context) {}
  ~secure_maker() override { SSL_CTX_free(context_); }
  secure_maker(const secure_maker&) = delete;
  secure_maker& operator=(const secure_maker&) = delete;
  std::unique_ptr<byte_channel> make(int socket) override {
    SSL* const ssl = SSL_new(context_);
    if (ssl == nullptr) return nullptr;
    SSL_set_fd(ssl, socket);
    SSL_set_accept_state(ssl);
    return std::make_unique<secure_channel>(ssl);
  }
  [[nodiscard]] bool is_secure() const override { return true; }

 private:
  SSL_CTX* context_;
};

std::string ssl_reason() {
  const char* const why = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return why == nullptr ? "no reason given" : why;
}

}  // namespace

core::result<void> check_private(const std::filesystem::path& file, const char* what_key) {
  struct stat is {};
  if (::stat(file.c_str(), &is) != 0) return core::fail(core::path_error("read", file, errno).in(what_key));
  if ((is.st_mode & 077U) == 0 && (is.st_uid == ::geteuid() || is.st_uid == 0)) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("{}: wanted a file that only its user can read (chmod 600), got {} with mode {:04o}",
                                what_key, file.string(), is.st_mode & 07777U));
}

std::unique_ptr<channel_maker> plain_channels() { return std::make_unique<plain_maker>(); }

core::result<std::unique_ptr<channel_maker>> secure_channels(const std::filesystem::path& certificate,
                                                             const std::filesystem::path& key) {
  TROUPE_TRY(check_private(key, "cluster.page_tls.key"));
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return core::fail(core::error_kind::limit, "TLS: no memory for it");
  auto out = std::make_unique<secure_maker>(context);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  const auto bad = [](const char* what, const std::filesystem::path& file) {
    return core::fail(core::error_kind::bad_input, fmt::format("cluster.page_tls.{}: wanted one in PEM, got {}: {}",
                                                               what, file.string(), ssl_reason()));
  };
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) return bad("certificate", certificate);
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) return bad("key", key);
  if (SSL_CTX_check_private_key(context) != 1) return bad("key", key);
  return std::unique_ptr<channel_maker>(std::move(out));
}

}  // namespace troupe::apps
