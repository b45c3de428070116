// The weights of any source as a folder of compressed linear layers (compressed-tensors), rounded to nearest,
// streaming: a few rows of a weight are in memory at a time. Owns which weights are compressed and what is told of
// each; how one is stored is compressed/'s, config.json is the caller's.
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

#include "checkpoint/compressed/scheme.hpp"
#include "checkpoint/convert/compressed_layer.hpp"
#include "checkpoint/convert/prepared_weights.hpp"
#include "checkpoint/convert/stored_form.hpp"
#include "checkpoint/files/progress.hpp"
#include "checkpoint/safetensors/weights_folder.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Elements that are read and rounded at once; a longer row alone is taken whole.
inline constexpr uint64_t compress_block_elements = uint64_t{1} << 18;

/// Families of Hugging Face's whose blocks consist of linear layers (`model_type` of config.json).
bool has_linear_layers(std::string_view model_type);
/// "gemma, gemma2 ...": for messages.
std::string families_with_linear_layers();
/// Whether a tensor of such a family, by Hugging Face's name, is the weight of a linear layer of a block. Embeddings
/// and the head are not: they stay as they are.
bool is_linear_weight(std::string_view name, const std::vector<int64_t>& shape);

struct compress_options {
  std::filesystem::path out;  ///< a folder
  weight_scheme scheme;
  core::dtype type = core::dtype::bf16;  ///< of floating weights that are not compressed
  uint64_t max_shard_bytes = default_shard_bytes;
  /// As weights_export_options::rename; names come out as Hugging Face's.
  std::function<std::optional<std::string>(const std::string&)> rename = {};
  progress_function progress = {};
  const prepared_weights* prepared = nullptr;  ///< weights whose codes and scales are made already; or null
};

/// How its weights are stored, by the tensor's name in the source; refuses as compress_weights().
core::result<std::map<std::string, std::shared_ptr<const stored_form>, std::less<>>> stored_forms(
    const tensor_source& from, const compress_options& options);

/// Bytes of tensors that it writes, before it does.
core::result<uint64_t> compressed_bytes(const tensor_source& from, const compress_options& options);

/// Writes them as write_weights_folder() does: all files or none. Weights of the same input share NVFP4's one scale
/// (queries, keys and values; gate and up), as runtimes that join them want. Refused with the layer named: groups that
/// do not divide a row, values that are not finite, no linear weight at all. `stopped` where progress said so. The
/// report has layers block after block.
core::result<compression_report> compress_weights(const tensor_source& from, const compress_options& options);

}  // namespace troupe::checkpoint
