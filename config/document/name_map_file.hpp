// Reads the file of `--map`, which renames the tensors of a checkpoint: YAML or JSON with the mappings `layers` and
// `names` of text to text, as documented in docs/checkpoints.md. Owns the file's syntax; checkpoint/ applies the
// renaming rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "core/name_lines.hpp"

namespace troupe::config {

/// Largest number of bytes of a file that `--map` names.
inline constexpr uint64_t max_name_map_bytes = uint64_t{256} << 10;

/// Parses the text of a `--map` file and returns its renaming rules in file order; `where` is the prefix of errors.
/// Refused (bad_input), with the line: text of any other form, and a file without rules.
core::result<core::name_lines> parse_name_map(std::string_view text, const std::string& where);
/// Reads and parses a `--map` file; returns no rules for an empty path.
core::result<core::name_lines> read_name_map(const std::filesystem::path& file);

}  // namespace troupe::config
