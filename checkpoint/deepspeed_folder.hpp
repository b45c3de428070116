// Where every tensor of a DeepSpeed checkpoint lies: a pure list of byte ranges. Owns the layouts of ZeRO stages 1,
// 2 and 3; reading the ranges is left to deepspeed_consolidate and to whoever loads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Files of one folder.
inline constexpr size_t max_deepspeed_files = 1 << 16;
/// Bytes of a tag's name in `latest`.
inline constexpr size_t max_tag_bytes = 255;

/// A stretch of one file.
struct file_piece {
  uint32_t file = 0;  ///< place in deepspeed_index::files
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

/// One of a tensor's values: its pieces in order are its elements in order, without padding.
struct stored_state {
  std::string kind;  ///< "fp32" for the master, "weight" for a buffer or frozen weight, else the moment's own key
  core::dtype type = core::dtype::f32;
  std::vector<file_piece> pieces;
};

enum class deepspeed_role : uint8_t { buffer, frozen, trainable, shared };

struct deepspeed_tensor {
  std::string name;
  std::vector<int64_t> shape;
  deepspeed_role role = deepspeed_role::trainable;
  std::string owner;  ///< of a shared name: the name that has the states
  std::vector<stored_state> states;

  [[nodiscard]] const stored_state* state(std::string_view kind) const;
};

struct deepspeed_index {
  std::filesystem::path folder;  ///< of the tag
  int64_t stage = 0;
  size_t ranks = 0;  ///< data-parallel
  std::vector<std::filesystem::path> files;
  std::vector<deepspeed_tensor> tensors;  ///< buffers, frozen, trainable, shared: the order of DeepSpeed's converter
};

/// `path` is the folder with `latest` in it, or a tag's own folder; a `tag` is looked for below `path`. Only file
/// names, containers and pickles are read, no tensor. Beyond what DeepSpeed's converter takes: shards of
/// BF16_Optimizer, and stage 1's frozen weights, which it forgets. Refused with the file: stage 0, tensor- and
/// pipeline-parallel folders, experts, shapes that do not fill the flat groups, shards that are missing.
core::result<deepspeed_index> read_deepspeed_folder(const std::filesystem::path& path,
                                                    const std::optional<std::string>& tag = std::nullopt);

}  // namespace troupe::checkpoint
