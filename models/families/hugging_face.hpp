// Reads and writes Hugging Face folders: config.json next to model.safetensors or its shards. Owns the parameters'
// names in the files; checkpoint/ reads and writes the files themselves. Uses no Torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "core/source_file.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::formats {
class safetensors_file;
class weights_folder;
struct safetensors_entry;
struct tensor_entry;
struct tensor_source;
}  // namespace troupe::formats

namespace troupe::models {

/// True if `path` is a folder with weights, or a file of weights or an index. Also true for weights that cannot be
/// read, and for checkpoints of other programs at or below `path`, so that weights_source::open() refuses them by name
/// instead of training from scratch.
bool has_weights(const std::filesystem::path& path);

/// Reads the weights of a folder, of an index or of one file as the parameters of a model's table, on request, in any
/// range of elements. Several threads may read at once.
class weights_source {
 public:
  /// Opens the weights at `path` for the model `spec` with the parameters of `table`. Names in the files may lack the
  /// family's prefix, such as `transformer.` or `model.`. Buffers in old files (attention masks, rotary frequencies),
  /// the head's copy of a tied weight, and parts of an encoder for other tasks (pooler, next sentence) are ignored.
  /// Compressed weights are read as the values of their codes if `dequantise`. Errors: compressed weights without
  /// `dequantise`, a parameter that is missing or has another shape, a tensor that is not a parameter of the model, a
  /// type that is not floating-point, a copy of a tied weight or bias of an encoder with other values.
  static core::result<std::unique_ptr<weights_source>> open(const std::filesystem::path& path, const model_spec& spec,
                                                            const core::model_table& table, bool dequantise = false);
  ~weights_source();

  /// Reads elements [first, first + out.size()) of a parameter, rounded to fp32 if the file's type is wider. Errors: a
  /// value that fp32 cannot represent.
  [[nodiscard]] core::result<void> read(uint32_t parameter, uint64_t first, std::span<float> out) const;

 private:
  struct stored {
    size_t file = 0;
    uint64_t begin = 0, bytes = 0;  ///< offset and size in bytes of the tensor in its file
    core::dtype type = core::dtype::f32;
    /// Entry of `source_`; if not null, the other members are not used.
    const formats::tensor_entry* of_source = nullptr;
  };
  weights_source();
  core::result<void> read(const stored& from, uint32_t parameter, uint64_t first, std::span<float> out) const;
  /// Returns whether the tensor `copy` has the values of a parameter of `elements` elements.
  [[nodiscard]] core::result<bool> repeats(const stored& copy, uint32_t parameter, uint64_t elements) const;
  core::result<stored> place_of(const formats::safetensors_file& file, const formats::safetensors_entry& entry);

  std::unique_ptr<formats::weights_folder> folder_;
  /// The weights, if they are compressed or in torch.save files; then `folder_` is not used.
  std::unique_ptr<const formats::tensor_source> source_;
  std::vector<core::source_file> files_;  ///< safetensors files that contain parameters
  std::vector<stored> parameters_;
  std::vector<std::string> names_;  ///< [parameter]: name of the parameter in the folder
};

/// Function that fills `out` with elements of a parameter from `first` on, in fp32.
using parameter_reader = std::function<core::result<void>(uint32_t parameter, uint64_t first, std::span<float> out)>;

/// Writes config.json and the weights in `type` (fp32, bf16, fp16 or fp64; rounded once), sharded with an index beyond
/// `max_shard_bytes`. Calls `read` for ascending ranges of one parameter after another; holds a few MiB at a time. The
/// folder's previous contents are removed only after all weights are written.
core::result<void> write_folder(const std::filesystem::path& folder, const model_spec& spec,
                                const core::model_table& table, core::dtype type, const parameter_reader& read,
                                uint64_t max_shard_bytes = 5'000'000'000);

}  // namespace troupe::models
