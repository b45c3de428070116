// XXH3-128 digests of bytes, whole or in blocks, that identify a piece. They detect accidents, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::storage {

/// A digest. Its canonical form is `high` then `low`, each big-endian.
struct digest128 {
  uint64_t high = 0, low = 0;
  bool operator==(const digest128&) const = default;
};

/// Returns the XXH3-128 digest with seed 0.
digest128 digest_of(std::span<const std::byte> bytes);
inline digest128 digest_of(std::string_view text) { return digest_of(std::as_bytes(std::span(text))); }

/// Computes the digest of bytes that arrive in blocks, with seed 0.
class digest_stream {
 public:
  digest_stream();
  ~digest_stream();
  digest_stream(digest_stream&&) noexcept;
  digest_stream& operator=(digest_stream&&) noexcept;

  void add(std::span<const std::byte> bytes);
  [[nodiscard]] digest128 value() const;  ///< returns the digest of all bytes added so far

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// to_hex() returns 32 lower-case hexadecimal digits; digest_from_hex() returns the digest that such a text denotes,
/// and nothing for any other text.
std::string to_hex(digest128 d);
std::optional<digest128> digest_from_hex(std::string_view text);

}  // namespace troupe::storage
