// The index of a sharded Hugging Face folder: which file holds which tensor. Text to checked pairs and
// back; opening the files is left to weights_folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Bytes of an index that is read.
inline constexpr uint64_t max_index_bytes = 100'000'000;
/// Nesting of an index that is read.
inline constexpr size_t max_index_depth = 64;

/// (tensor, file), ascending by tensor.
using weight_map = std::vector<std::pair<std::string, std::string>>;

/// Reads `{"metadata": anything, "weight_map": {tensor: file}}`. Refused: other JSON, keys twice, and every
/// file that is not a plain name or a relative path downwards: an absolute one, one with `..`, an empty one.
core::result<weight_map> parse_weights_index(std::string_view text);

/// The files of a folder whose names have `infix` in them and end in .json, ascending.
std::vector<std::filesystem::path> weights_indices(const std::filesystem::path& folder, std::string_view infix);
/// The index in a folder: `usual` where that is there, else the one file whose name has `infix` in it and ends in
/// .json, such as model.safetensors.index.fp16.json. Nothing where there is none, or several.
std::optional<std::filesystem::path> find_weights_index(const std::filesystem::path& folder, std::string_view usual,
                                                        std::string_view infix);
inline constexpr std::string_view safetensors_index_infix = ".safetensors.index", torch_index_infix = ".bin.index";

/// Whether this is an index by its name, of either kind: then its shards lie beside it.
bool is_index_name(const std::filesystem::path& file);

/// As Hugging Face writes it: indented by two, keys sorted, `total_size` in bytes.
core::result<std::string> format_weights_index(const weight_map& weights, uint64_t total_bytes);

}  // namespace troupe::checkpoint
