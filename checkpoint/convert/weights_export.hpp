// Writes the weights of any source as files of safetensors or of torch.save, streaming: the work of `to-fp32`. Owns
// which tensors are weights and how they share files; source_reader reads the bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/progress.hpp"

namespace troupe::checkpoint {

/// True if the name is that of one file: `*.safetensors`, `*.pt`, `*.pth`, `*.bin`.
bool names_weights_file(const std::filesystem::path& out);

struct weights_export_options {  ///< where and in which form weights are written
  /// One file if names_weights_file() is true: of torch.save if its name ends in .pt, .pth or .bin, else of
  /// safetensors. Else a folder of safetensors files of at most max_shard_bytes (a larger tensor has its own file),
  /// with an index if there are several.
  std::filesystem::path out;
  bool is_folder = false;  ///< true: `out` is a folder, whatever its name
  uint64_t max_shard_bytes = formats::default_shard_bytes;
  bool exclude_frozen = false;
  core::dtype type = core::dtype::f32;  ///< written type of trained parameters and floating-point buffers
  /// Returns the name under which a tensor is written; nothing: the tensor is left out. If no function is set, all
  /// tensors are written under their names in the source.
  std::function<std::optional<std::string>(const std::string&)> rename = {};
  /// Notes about the origin of the weights, by name. Written only if the output is one file: into the metadata of a
  /// safetensors file, or each as an entry `extra/NAME` of a torch.save archive. Readers of both formats ignore them.
  formats::string_map about = {};
  storage::progress_function progress = {};
};

struct weights_export_report {               ///< what an export has written
  std::vector<std::filesystem::path> files;  ///< written files, the index included
  /// number of written tensors, and their total number of bytes, where shared storage counts once
  uint64_t tensors = 0, tensor_bytes = 0;
};

/// True if the output is a file in the format of torch.save, which stores the bytes of a tensor once for all its names.
bool keeps_bytes_once(const weights_export_options& options);

/// A weight as an export will write it: name, dtype, shape and source.
struct exported_weight {
  std::string name;                             ///< name of the weight in the output
  const formats::tensor_entry* from = nullptr;  ///< tensor in the source, which must outlive this object
  core::dtype type = core::dtype::f32;
  bool is_tied = false;  ///< true: an earlier weight of the list has the same `from`
};

/// Returns buffers, frozen and trained parameters in the order of DeepSpeed's converter, tied names last; for a trained
/// parameter the master, or the weight if there is none. Frozen parameters and integers keep their type, as in
/// DeepSpeed.
core::result<std::vector<exported_weight>> weights_of(const formats::tensor_source& from,
                                                      const weights_export_options& options);

/// Writes the weights. In safetensors a tied name has its own bytes; in a file of torch.save it shares its tensor's
/// storage. Memory: two blocks of parallel_output.hpp or streamed_file.hpp and the lists of names, whatever the
/// tensors' sizes. All files of a folder are synced before the first is renamed. Files of an earlier export under these
/// names are replaced or removed. Refused before a byte is written: a name that occurs twice, too little space (with
/// needed and free bytes), nothing to write, a folder with weights under other names.
core::result<weights_export_report> export_weights(const formats::tensor_source& from,
                                                   const weights_export_options& options);
/// Writes the weights `all`, which weights_of() has returned for this source and these options.
core::result<weights_export_report> export_weights(const formats::tensor_source& from,
                                                   const std::vector<exported_weight>& all,
                                                   const weights_export_options& options);

/// Parses "5GB", "200MB", "750KB", "1TB" (decimal units) or a number of bytes.
core::result<uint64_t> shard_bytes_from(std::string_view text);

}  // namespace troupe::checkpoint
