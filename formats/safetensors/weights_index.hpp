// The index of a sharded Hugging Face folder: which file holds which tensor. Converts text to checked pairs and back;
// leaves opening the files to weights_folder.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe::formats {

/// Largest index that is read, in bytes.
inline constexpr uint64_t max_index_bytes = 100'000'000;
/// Deepest nesting of an index that is read.
inline constexpr size_t max_index_depth = 64;

/// Pairs of (name of a tensor, name of its file), ascending by tensor.
using weight_map = std::vector<std::pair<std::string, std::string>>;

/// Reads `{"metadata": anything, "weight_map": {tensor: file}}`. Refused: other JSON, repeated keys, and a file name
/// that may lead out of the folder: an absolute path, a path with `..`; also an empty one.
core::result<weight_map> parse_weights_index(std::string_view text);

/// Returns the paths of the files in a folder whose names contain `infix` and end in .json, ascending.
std::vector<std::filesystem::path> weights_indices(const std::filesystem::path& folder, std::string_view infix);
/// Returns the index of a folder: the file `usual` if it exists, else the only file whose name contains `infix` and
/// ends in .json, such as model.safetensors.index.fp16.json. Nothing if there is no such file, or several.
std::optional<std::filesystem::path> find_weights_index(const std::filesystem::path& folder, std::string_view usual,
                                                        std::string_view infix);
inline constexpr std::string_view safetensors_index_infix = ".safetensors.index", torch_index_infix = ".bin.index";

/// True if the name is that of an index of either kind (safetensors or torch); its shards are then in the same folder.
bool is_index_name(const std::filesystem::path& file);

/// Returns the index as Hugging Face writes it: indented by two, keys sorted, `total_size` in bytes.
core::result<std::string> format_weights_index(const weight_map& weights, uint64_t total_bytes);

}  // namespace troupe::formats
