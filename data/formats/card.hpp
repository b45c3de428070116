// A data set's card: the `configs` in the metadata that README.md begins with. Owns the part of YAML that such cards
// are written in: blocks of lists and mappings, scalars, lists in brackets on one line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// No longer card is read.
inline constexpr uint64_t max_card_bytes = uint64_t{1} << 20;
/// Values inside values of its metadata.
inline constexpr size_t max_card_depth = 16;

struct card_split {
  std::string name;
  std::vector<std::string> paths;  ///< patterns below the configuration's folder
};

struct card_configuration {
  std::string name, folder;  ///< `folder`: its data_dir; empty: none
  bool is_default = false;
  std::vector<card_split> splits;  ///< empty: by the files' names
};

struct data_card {
  bool is_there = false;  ///< README.md begins with metadata
  std::vector<card_configuration> configurations;
};

/// Of the README.md in `folder`. Errors (bad_input): metadata whose `configs` are of another form.
core::result<data_card> read_card(const std::filesystem::path& folder);

}  // namespace troupe::data
