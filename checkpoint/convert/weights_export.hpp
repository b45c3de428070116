// The weights of any source as files of safetensors or of torch.save, streaming: what `to-fp32` writes. Owns which
// tensors are weights and how they share files; bytes come from source_reader.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/files/progress.hpp"
#include "checkpoint/safetensors/header.hpp"
#include "checkpoint/safetensors/weights_folder.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct weights_export_options {
  /// `*.safetensors` and `*.pt`, `*.bin` are one file; anything else is a folder of files of at most max_shard_bytes
  /// (a larger tensor has one of its own), with an index where there are several.
  std::filesystem::path out;
  bool torch_files = false;  ///< in a folder: `pytorch_model*.bin` in place of `model*.safetensors`
  uint64_t max_shard_bytes = default_shard_bytes;
  bool exclude_frozen = false;
  core::dtype type = core::dtype::f32;  ///< of trained parameters and floating buffers
  /// The name under which a tensor is written; nothing leaves it out. Without a function names stay.
  std::function<std::optional<std::string>(const std::string&)> rename = {};
  /// What a single file says of who made it, beside its tensors: safetensors' metadata, an entry `extra/NAME` each of
  /// torch's archive. Readers of either pass it over.
  string_map about = {};
  progress_function progress = {};
};

struct weights_export_report {
  std::vector<std::filesystem::path> files;  ///< the index too
  uint64_t tensors = 0, tensor_bytes = 0;    ///< as written; shared storages once
};

/// A weight as it is to be written.
struct exported_weight {
  std::string name;                    ///< in the output
  const tensor_entry* from = nullptr;  ///< in the source, which outlives this
  core::dtype type = core::dtype::f32;
  bool is_tied = false;  ///< an earlier weight has the same `from`
};

/// Buffers, frozen and trained parameters in the order of DeepSpeed's converter, tied names last; of a trained one the
/// master, or the weight where there is none. Frozen parameters and whole numbers keep their type, as with DeepSpeed.
core::result<std::vector<exported_weight>> weights_of(const tensor_source& from, const weights_export_options& options);

/// Writes them. In safetensors a tied name has its own bytes; in torch's files it shares its tensor's storage and lies
/// in the same file. Memory: two blocks of parallel_output.hpp or streamed_file.hpp and the lists of names, whatever
/// the tensors' sizes. Safetensors files are all synced before the first takes its name; torch's appear one after the
/// other, the index last. What an earlier export left under these names is replaced. Refused before a byte is written:
/// names twice, no room (needed and free bytes), nothing to write.
core::result<weights_export_report> export_weights(const tensor_source& from, const weights_export_options& options);

/// "5GB", "200MB", "750KB", "1TB" (decimal units) or a number of bytes.
core::result<uint64_t> shard_bytes_from(std::string_view text);

}  // namespace troupe::checkpoint
