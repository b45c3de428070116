// Files of torch.save that hold tensors by name, one or a folder of them with an index, as a tensor_source. Only
// containers and pickles are read.
#pragma once

#include <filesystem>
#include <string_view>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view torch_file_name = "pytorch_model.bin";
/// Accelerate's, of FSDP with full states.
inline constexpr std::string_view full_fsdp_file_name = "pytorch_model_fsdp.bin";
inline constexpr std::string_view torch_index_file_name = "pytorch_model.bin.index.json";
/// tensor_source::format of one file by itself.
inline constexpr std::string_view torch_save_format = "torch.save";

/// `path` is such a file, a folder with pytorch_model.bin, its index or pytorch_model_fsdp.bin, or an index of any
/// name. A file's tensors are those of the dictionary that torch_contents.hpp finds; what else holds tensors is a
/// remark. Every tensor is of kind `weight`; one that shows the same elements as another is tied to it. The order of
/// parameters is the file's; tensors of types that are not read are in `unread`. Linear layers of nanoGPT's are turned
/// to Hugging Face's order. Refused by name: a tensor that depends on a class that is not allowed.
core::result<tensor_source> read_torch_source(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
