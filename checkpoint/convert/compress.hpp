// Writes the weights of any source as a folder of compressed linear layers (compressed-tensors), rounded to nearest,
// streaming: a few rows of a weight are in memory at a time. Owns which weights are compressed and the report on each;
// leaves the storage of one weight to compressed/ and config.json to the caller.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/convert/compressed_layer.hpp"
#include "checkpoint/convert/prepared_weights.hpp"
#include "checkpoint/convert/stored_form.hpp"
#include "core/error.hpp"
#include "formats/compressed/scheme.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/progress.hpp"

namespace troupe::checkpoint {

/// Number of elements that are read and rounded at once; a row that is longer is processed whole.
inline constexpr uint64_t compress_block_elements = uint64_t{1} << 18;

/// True if the blocks of this family of Hugging Face (`model_type` of config.json) consist of linear layers.
bool has_linear_layers(std::string_view model_type);
/// Returns the families as text for messages: "gemma, gemma2 ...".
std::string families_with_linear_layers();
/// True if the tensor is the weight of a linear layer of a block. `name` is Hugging Face's, in a family with linear
/// layers. False for embeddings and the head, which are not compressed.
bool is_linear_weight(std::string_view name, const std::vector<int64_t>& shape);

struct compress_options {
  std::filesystem::path out;  ///< the output folder
  formats::weight_scheme scheme;
  core::dtype type = core::dtype::bf16;  ///< type of floating-point weights that are not compressed
  uint64_t max_shard_bytes = formats::default_shard_bytes;
  /// Returns the Hugging Face name under which a tensor is written; nothing: the tensor is left out. If no function is
  /// set, all tensors are written under their names in the source, which must then be Hugging Face's.
  std::function<std::optional<std::string>(const std::string&)> rename = {};
  storage::progress_function progress = {};
  const prepared_weights* prepared = nullptr;  ///< weights whose codes and scales are made already; or null
};

/// Returns the storage form of each compressed weight, by the tensor's name in the source. Returns the errors of
/// compress_weights() that do not depend on values.
core::result<std::map<std::string, std::shared_ptr<const stored_form>, std::less<>>> stored_forms(
    const formats::tensor_source& from, const compress_options& options);

/// Returns the size in bytes of all tensors that compress_weights() will write.
core::result<uint64_t> compressed_bytes(const formats::tensor_source& from, const compress_options& options);

/// Writes the compressed weights as write_weights_folder() does: all files or none. Weights that multiply the same
/// input (queries, keys and values; gate and up) share one NVFP4 global scale, because runtimes that join them require
/// it. Errors name the layer: groups that do not divide a row, values that are not finite. A source without a linear
/// weight is an error, too. Returns `stopped` if progress asked to stop. The report lists the layers block by block.
core::result<compression_report> compress_weights(const formats::tensor_source& from, const compress_options& options);

}  // namespace troupe::checkpoint
