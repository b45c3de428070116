// Errors, for whoever has to act on them. Owns the error value and its kinds; every folder
// returns `core::result<T>` for what the world does to us and asserts what only our own bug can do.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace troupe::core {

/// Why an operation failed. Each kind names who can do something about it.
enum class error_kind : uint8_t {
  bad_input = 1,  ///< A file, key or argument the user gave. The user mends it; exit code 2.
  io,             ///< The file system or a device refused. Retry, another place, or stop.
  no_space,       ///< No room left where bytes were to go.
  limit,          ///< A named limit would be exceeded.
  mismatch,       ///< Two parties that must agree do not: shapes, identities, versions.
  stalled,        ///< Everybody waited for somebody else, or one instruction never ended.
  peer_lost,      ///< An actor or process ended while others needed it.
  numeric,        ///< NaN or infinity where a number was wanted.
  stopped,        ///< Somebody asked us to stop.
  bug,            ///< A broken promise inside Troupe.
};

/// One failure: a sentence that says what was wanted, what was got, and where.
struct error {
  error_kind kind = error_kind::bug;
  std::string text;

  /// The same failure with its surroundings in front: `rank 1: <text>`.
  [[nodiscard]] error in(const std::string& where) const { return {kind, where + ": " + text}; }
};

template <class T>
using result = tl::expected<T, error>;

/// `return fail(error_kind::io, "...")` from any function that returns a result.
inline tl::unexpected<error> fail(error_kind kind, std::string text) {
  return tl::unexpected<error>(error{kind, std::move(text)});
}
inline tl::unexpected<error> fail(error e) { return tl::unexpected<error>(std::move(e)); }  ///< as a result<T> of any T
/// An input that the user mends, as a result<T> of any T.
inline tl::unexpected<error> refused(std::string text) { return fail(error_kind::bad_input, std::move(text)); }

}  // namespace troupe::core
