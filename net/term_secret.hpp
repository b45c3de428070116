// Authenticates the processes of one term to each other by a secret that the supervisor draws for each term, so that no
// other program can exchange data with them. Uses TLS 1.3 with that pre-shared key and fresh Diffie-Hellman shares,
// without certificates. Owns the names (PSK identities) that belong to the secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/connector.hpp"

namespace troupe::net {

/// A secret of 32 bytes; its destructor overwrites the bytes. A secret has no text form.
class term_secret {
 public:
  explicit term_secret(const std::array<std::byte, 32>& bytes) : bytes_(bytes) {}
  ~term_secret();
  term_secret(const term_secret&) = default;
  term_secret& operator=(const term_secret&) = default;
  /// Returns a new random secret. Errors: limit, if the system has no random bytes.
  static core::result<term_secret> draw();
  [[nodiscard]] const std::array<std::byte, 32>& bytes() const { return bytes_; }

 private:
  std::array<std::byte, 32> bytes_;
};

struct term_key {  ///< secret of a term, and the number (place) of the process that uses it
  term_secret secret;
  std::string job;  ///< name of the job; at most 128 bytes
  uint64_t term = 0;
  uint32_t place = 0;
};

/// Returns TLS options for an end that connects to the process with number `place`. Errors: limit.
core::result<tls_options> secret_options_to(std::shared_ptr<const term_key> key, uint32_t place);
/// Returns TLS options for an end that accepts connections from processes with higher numbers. Errors: limit.
core::result<tls_options> secret_options(std::shared_ptr<const term_key> key);
/// Returns the number of the process that connected, after the handshake; nothing if the process did not prove that it
/// has the secret.
std::optional<uint32_t> place_of(const tls_stream& with);

/// Checks that the handshake used the secret together with a Diffie-Hellman share; sends nothing.
class secret_check final : public first_words {
 public:
  core::result<bool> advance(tls_stream& with) override;
};

}  // namespace troupe::net
