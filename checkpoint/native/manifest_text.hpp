// A manifest as text: one sealed line, then JSON. Pure functions; files are the business of manifest_file.hpp.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Values of the JSON, nesting, and keys of one object that are read.
inline constexpr size_t max_manifest_values = size_t{32} << 20;
inline constexpr size_t max_manifest_depth = 6;
inline constexpr size_t max_manifest_keys = 32;
/// Nesting of a client state.
inline constexpr size_t max_client_state_depth = 64;

/// The text of a manifest that check_manifest() accepts; else its error.
core::result<std::string> format_manifest(const manifest& m);

/// The inverse: text whose seal is broken, of a newer version, or that breaks a rule is refused. Memory stays within a
/// small multiple of the text.
core::result<manifest> parse_manifest(std::string_view text);

/// What the first line says of the rest; also how `latest` knows a manifest.
core::result<digest128> seal_of(std::string_view text);

/// Puts the first line in front of a body.
std::string sealed(std::string_view body, uint32_t version = manifest_version);

/// Whether a file that begins so is a manifest of ours, of whatever version.
bool looks_like_manifest(std::string_view first_bytes);

}  // namespace troupe::checkpoint
