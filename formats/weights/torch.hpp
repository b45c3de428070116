// Opens torch.save files that hold tensors by name, one file or a folder of them with an index, as a tensor_source.
// Opening reads only containers and pickles; elements are read when the source's tensors are read.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "formats/source/source_format.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Weights in files of torch.save: one file, or a folder of them.
extern const source_format torch_format;

inline constexpr std::string_view torch_file_name = "pytorch_model.bin";
/// Name of the file that Accelerate writes for FSDP with full state dicts.
inline constexpr std::string_view full_fsdp_file_name = "pytorch_model_fsdp.bin";
inline constexpr std::string_view torch_index_file_name = "pytorch_model.bin.index.json";
/// Value of tensor_source::format for a single torch.save file.
inline constexpr std::string_view torch_save_format = "torch.save";

/// Opens a torch.save file, a folder with pytorch_model.bin, its index or pytorch_model_fsdp.bin, or an index of any
/// name. A file's tensors are those of the dictionary that torch_contents.hpp finds; other contents with tensors are
/// listed in a remark. Every tensor is of kind `weight`; one that uses the same elements as another is tied to it. The
/// order of parameters is that of the file; tensors of types that are not read are in `unread`. nanoGPT's linear layers
/// are transposed to Hugging Face's order. Refused by name: a tensor that depends on a class that is not allowed.
core::result<tensor_source> read_torch_source(const std::filesystem::path& path);

}  // namespace troupe::formats
