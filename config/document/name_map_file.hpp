// Reads the file of `--map`, which renames the tensors of a checkpoint: YAML or JSON with the mappings `layers` and
// `names` of text to text, as documented in docs/checkpoints.md. Owns the form; leaves the meaning of a line to
// checkpoint/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "core/name_lines.hpp"

namespace troupe::config {

/// Largest number of bytes of such a file.
inline constexpr uint64_t max_name_map_bytes = uint64_t{256} << 10;

/// Returns the lines in their order; `where` is the prefix of errors. Refused (bad_input), with the line: any other
/// form, a file without lines.
core::result<core::name_lines> parse_name_map(std::string_view text, const std::string& where);
/// Reads a file; returns no lines for an empty path.
core::result<core::name_lines> read_name_map(const std::filesystem::path& file);

}  // namespace troupe::config
