// Reads the file of a network: its form, its patterns of names, and the refusal of what is missing, unknown, out of
// range or not connected, by name with file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "sim/network/network.hpp"

namespace troupe::sim {

/// Largest numbers of devices with switches, and of directed links, that a file may describe.
inline constexpr uint32_t most_vertices = 1U << 18;
inline constexpr uint32_t most_links = 1U << 20;

/// Returns the network of a YAML text; `file` is its name for messages. docs/network.md describes the form. `ranks`:
/// number of devices for which nodes with `count: as_needed` are made, at least one node. Errors (bad_input): a key
/// that is missing, unknown or out of range, a name that is given twice, a link to nowhere, two links between the same
/// ends, a device that another one does not reach, a switch without links, oversubscription of a switch without links
/// on both of its sides, more than most_vertices or most_links, several entries with `as_needed`.
core::result<network> parse_network(std::string_view text, const std::string& file, uint32_t ranks = 1);
/// Returns the network of a file. Errors: those of parse_network(), and bad_input if the file cannot be read.
core::result<network> read_network(const std::filesystem::path& file, uint32_t ranks = 1);

}  // namespace troupe::sim
