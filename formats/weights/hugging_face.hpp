// Opens the weights of a Hugging Face folder, or one safetensors file, as a tensor_source. Opening reads only headers;
// elements are read when the source's tensors are read. Leaves files of torch.save in such folders to torch.hpp.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

inline constexpr std::string_view model_config_file_name = "config.json";
/// Largest config.json that is read, in bytes.
inline constexpr uint64_t max_model_config_bytes = uint64_t{4} << 20;

/// The tensors of a folder before their types are interpreted: F8_E4M3 is listed as type u8.
struct stored_tensors {
  tensor_source source;
  std::set<std::string> in_e4m3;  ///< names of the tensors of type u8 whose bytes are F8_E4M3 numbers
};
/// Opens `path`, which weights_folder::open() must accept. Every tensor is of kind `weight`, buffers too, because these
/// files do not tell them apart. Tensors of types that are not read are in `unread`. `config` is the text of
/// config.json in the folder, empty if there is none; source_run::model gets it.
core::result<stored_tensors> read_stored_tensors(const std::filesystem::path& path, std::string config);

/// Returns the tensors of `path` as a source. Tensors of F8_E4M3, which cannot be read without their scales, are in
/// `unread`. Refuses a weight `M.weight` of F8_E4M3, unless `as_stored` is true, for commands that show the stored
/// tensors and read no values.
core::result<tensor_source> plain_source(stored_tensors stored, const std::filesystem::path& path, bool as_stored);

/// Returns the text of config.json in `folder`; empty if there is no such file.
core::result<std::string> read_model_config(const std::filesystem::path& folder);

}  // namespace troupe::formats
