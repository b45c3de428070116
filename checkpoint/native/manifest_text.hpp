// A manifest as text: one sealed line, then JSON. Pure functions; leaves files to manifest_file.hpp.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Largest number of values in the JSON of a manifest. Nesting and the number of keys of one object are limited, too.
inline constexpr size_t max_manifest_values = size_t{32} << 20;
inline constexpr size_t max_manifest_depth = 6;
inline constexpr size_t max_manifest_keys = 32;
/// Deepest nesting of the JSON of a client state.
inline constexpr size_t max_client_state_depth = 64;

/// Returns the manifest as text. Errors: those of check_manifest() and check_client_state(); limit; bad_input for a
/// string that is not UTF-8.
core::result<std::string> format_manifest(const manifest& m);

/// Returns the manifest in `text`. Refused: a broken seal, a newer version, a manifest that check_manifest() refuses.
/// Memory stays within a small multiple of the text.
core::result<manifest> parse_manifest(std::string_view text);

/// Returns the seal of a manifest: the digest in its first line. Refused: a text whose other lines do not have that
/// digest. The file `latest` identifies a manifest by its seal.
core::result<storage::digest128> seal_of(std::string_view text);

/// Returns the first line of a manifest, with the digest of `body`, followed by `body`.
std::string sealed(std::string_view body, uint32_t version = manifest_version);

/// True if a file that begins with `first_bytes` is a manifest of Troupe, of any version.
bool looks_like_manifest(std::string_view first_bytes);

}  // namespace troupe::checkpoint
