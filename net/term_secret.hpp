// What lets processes of one term move bytes to each other, and nobody else: a secret that the supervisor draws for
// each term. TLS 1.3 with that key and fresh Diffie-Hellman shares; no certificates. Owns the names that go with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/door.hpp"

namespace troupe::net {

/// 32 bytes that are overwritten when they go. It has no text.
class term_secret {
 public:
  explicit term_secret(const std::array<std::byte, 32>& bytes) : bytes_(bytes) {}
  ~term_secret();
  term_secret(const term_secret&) = default;
  term_secret& operator=(const term_secret&) = default;
  /// A fresh one. Errors: limit, where the system has no random bytes.
  static core::result<term_secret> draw();
  [[nodiscard]] const std::array<std::byte, 32>& bytes() const { return bytes_; }

 private:
  std::array<std::byte, 32> bytes_;
};

struct term_key {  ///< of a process
  term_secret secret;
  std::string job;  ///< at most 128 bytes
  uint64_t term = 0;
  uint32_t place = 0;
};

/// Of the end that connects, to a place. Errors: limit.
core::result<tls_options> secret_options_to(std::shared_ptr<const term_key> key, uint32_t place);
/// Of the end that accepts, from any higher place. Errors: limit.
core::result<tls_options> secret_options(std::shared_ptr<const term_key> key);
/// The place that connected, once an accepted handshake is done; none: it did not show the secret.
std::optional<uint32_t> place_of(const tls_stream& with);

/// Whether the secret was used, and a share of Diffie and Hellman with it; nothing is said.
class secret_check final : public first_words {
 public:
  core::result<bool> advance(tls_stream& with) override;
};

}  // namespace troupe::net
