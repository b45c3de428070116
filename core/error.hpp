// Errors as values. Owns the error value and its kinds. Every folder returns `core::result<T>` for failures that come
// from outside the program, and asserts conditions that only a bug in Troupe can violate.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace troupe::core {

/// Reason why an operation failed. Each kind implies who can correct the cause.
enum class error_kind : uint8_t {
  bad_input = 1,  ///< error in a file, key or argument of the user, who has to correct it; exit code 2
  io,             ///< the file system or a device failed an operation; retry, choose another location, or stop
  no_space,       ///< the disk or device has no room for the bytes
  limit,          ///< a limit, which the error's text names, would be exceeded
  mismatch,       ///< shapes, identities or versions that must be equal differ
  stalled,        ///< all actors waited for one another, or one instruction never ended
  peer_lost,      ///< an actor or process ended while others needed it
  numeric,        ///< NaN or infinity where a finite number is required
  stopped,        ///< a user or another program requested a stop
  bug,            ///< an invariant inside Troupe is violated
};

/// One failure: a sentence that states the expected value, the actual value, and the file, key or object concerned.
struct error {
  error_kind kind = error_kind::bug;
  std::string text;

  /// Returns an error of the same kind whose text begins with `where`: `rank 1: <text>`.
  [[nodiscard]] error in(const std::string& where) const { return {kind, where + ": " + text}; }

  /// Returns the error as one about the configuration key `key`, unless its text begins with a key: an error of a rule
  /// between keys names the key that the user has to change.
  [[nodiscard]] error at_key(const std::string& key) const { return begins_with_key() ? *this : in(key); }

 private:
  /// True for a text such as "parallel.tensor: wanted ...": a dotted name and a colon.
  [[nodiscard]] bool begins_with_key() const {
    const std::string head = text.substr(0, text.find(": "));
    return head.size() < text.size() && head.find('.') != head.npos &&
           head.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]") == head.npos;
  }
};

template <class T>
using result = tl::expected<T, error>;

/// Returns an error of this kind and text, in a form that every function with a result<T> can return: `return
/// fail(error_kind::io, "...")`.
inline tl::unexpected<error> fail(error_kind kind, std::string text) {
  return tl::unexpected<error>(error{kind, std::move(text)});
}
/// Returns an error as a result<T> of any T.
inline tl::unexpected<error> fail(error e) { return tl::unexpected<error>(std::move(e)); }
/// Returns a bad_input error, which the user can correct, as a result<T> of any T.
inline tl::unexpected<error> refused(std::string text) { return fail(error_kind::bad_input, std::move(text)); }

}  // namespace troupe::core

namespace troupe {

// Every folder makes errors, so `error_kind` and `fail` need no qualification within Troupe.
using core::error_kind;
using core::fail;

}  // namespace troupe

#define TROUPE_JOIN_(a, b) a##b
#define TROUPE_JOIN(a, b) TROUPE_JOIN_(a, b)

/// Evaluates an expression of type result<T>. If it holds an error, returns that error from the enclosing function,
/// which must return a result<U> of any U; if it holds a value, ignores the value.
#define TROUPE_TRY(...)                                             \
  do {                                                              \
    if (auto troupe_tried = (__VA_ARGS__); !troupe_tried)           \
      return ::troupe::core::fail(std::move(troupe_tried).error()); \
  } while (false)

/// Evaluates an expression of type result<T>; returns its error, if it holds one, from the enclosing function, and
/// otherwise initialises the declared variable with its value: `TROUPE_ASSIGN(const auto bytes, read_file(path,
/// 4096))`.
#define TROUPE_ASSIGN(declaration, ...)                                                    \
  auto TROUPE_JOIN(troupe_result_, __LINE__) = (__VA_ARGS__);                              \
  if (!TROUPE_JOIN(troupe_result_, __LINE__))                                              \
    return ::troupe::core::fail(std::move(TROUPE_JOIN(troupe_result_, __LINE__)).error()); \
  declaration = *std::move(TROUPE_JOIN(troupe_result_, __LINE__))
