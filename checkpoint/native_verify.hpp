// Reads a checkpoint to its last byte, and compares two of them. Memory: one or two blocks, whatever the tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest_file.hpp"
#include "checkpoint/native_files.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Damages that are listed; more are counted.
inline constexpr size_t max_listed_damages = 1000;

struct damage {        ///< one thing that is wrong
  std::string file;    ///< its name in the folder
  std::string tensor;  ///< as messages show it; empty where the whole file is refused
  uint64_t offset_bytes = 0;
  std::string text;  ///< the sentence
};

struct verify_report {
  uint64_t tensors = 0, pieces = 0, bytes = 0;  ///< that were read
  uint64_t damages = 0;                         ///< all of them; 0: the checkpoint is whole
  std::vector<damage> listed;
};

/// Compares every digest; goes on behind a damage. An error only where the manifest itself is refused.
core::result<verify_report> verify_checkpoint(file_system& files, const std::filesystem::path& folder);

enum class difference_kind : uint8_t { only_in_first, only_in_second, type, shape, content };

struct tensor_difference {  ///< how one tensor differs
  std::string tensor;       ///< as messages show it
  difference_kind kind = difference_kind::content;
  uint64_t element = 0;  ///< content: the first that differs
  std::string text;      ///< the sentence
};

/// Tensors that differ, by name. Equal cuts with equal digests count as equal bytes and are not read.
core::result<std::vector<tensor_difference>> diff_checkpoints(file_system& files, const checkpoint_folder& first,
                                                              const checkpoint_folder& second);

}  // namespace troupe::checkpoint
