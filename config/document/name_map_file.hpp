// The file of `--map`, which gives the tensors of a checkpoint other names: YAML or JSON with the mappings `layers` and
// `names` of text to text, as docs/checkpoints.md describes it. Owns the form; what a line means is checkpoint/'s.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "core/name_lines.hpp"

namespace troupe::config {

/// Bytes of such a file.
inline constexpr uint64_t max_name_map_bytes = uint64_t{256} << 10;

/// Lines in their order; `where` stands in front of errors. Refused (bad_input), with the line: any other form, a file
/// without lines.
core::result<core::name_lines> parse_name_map(std::string_view text, const std::string& where);
/// An empty path: no lines.
core::result<core::name_lines> read_name_map(const std::filesystem::path& file);

}  // namespace troupe::config
