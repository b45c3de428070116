// The weights of a Hugging Face folder, or a safetensors file alone, as a tensor_source. Only headers are read; files
// of torch.save in such folders are torch.hpp's.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view model_config_file_name = "config.json";
/// Bytes of a config.json that is read.
inline constexpr uint64_t max_model_config_bytes = uint64_t{4} << 20;

/// `path` as weights_folder::open() takes it. Every tensor is of kind `weight`, buffers too: such files do not tell
/// them apart. Tensors of types that are not read are in `unread`, F8_E4M3 too, which is nothing without its scales; a
/// weight of F8_E4M3, `M.weight`, is refused. source_run::model is the text of config.json beside the weights, where
/// that lies there.
core::result<tensor_source> read_hugging_face_source(const std::filesystem::path& path);

/// The same for commands that show what is stored and take no values: weights of F8_E4M3 are in `unread`, too.
core::result<tensor_source> read_codes_as_stored(const std::filesystem::path& path);

/// The same before anybody asks what the tensors mean.
struct stored_tensors {
  tensor_source source;
  std::set<std::string> in_e4m3;  ///< names of those of type u8 whose bytes are numbers, F8_E4M3
};
core::result<stored_tensors> read_stored_tensors(const std::filesystem::path& path);

/// The text of config.json in `folder`; empty where there is none.
core::result<std::string> read_model_config(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
