// Reads a data set's card: the `configs` in the metadata at the beginning of README.md. Owns which forms of these keys
// are accepted; leaves YAML to card_yaml.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Number of bytes at the beginning of README.md in which the metadata must end.
inline constexpr uint64_t max_card_bytes = uint64_t{1} << 20;

struct card_split {
  std::string name;
  /// Patterns of the paths of the split's files, relative to the configuration's folder, normalised; at least one.
  std::vector<std::string> paths;
};

struct card_configuration {
  std::string name, folder;  ///< `folder`: the configuration's data_dir, without a final slash; empty: none
  bool is_default = false;
  /// Splits of the configuration; empty: the names of the files determine their splits.
  std::vector<card_split> splits;
};

struct data_card {
  bool is_there = false;  ///< true: README.md begins with metadata that only a data set's card has, such as a licence
  std::vector<card_configuration> configurations;
};

/// Reads the card in README.md of `folder`, whatever the size of the page after the metadata. Errors (bad_input):
/// metadata whose `configs` have another form, or without an end within max_card_bytes.
core::result<data_card> read_card(const std::filesystem::path& folder);

}  // namespace troupe::data
