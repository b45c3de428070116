// Hugging Face folders in and out: config.json beside model.safetensors or its shards. Owns the parameters' names in
// the files; checkpoint/ reads and writes the files themselves. No Torch here.
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

namespace troupe::checkpoint {
class safetensors_file;
class weights_folder;
struct safetensors_entry;
struct tensor_entry;
struct tensor_source;
}  // namespace troupe::checkpoint

namespace troupe::models {

/// Whether a folder holds weights beside its config.json, or `path` is a file of them or an index. Weights that are not
/// read count, and those in checkpoints of other programs' below: weights_source::open() refuses them by name.
bool has_weights(const std::filesystem::path& path);

/// The weights of a folder, of an index or of one file as the parameters of a table, in any range, read when asked for.
/// Any number of threads may read.
class weights_source {
 public:
  /// Names may lack the prefix `transformer.` or `model.`; buffers that old files hold (attention masks, rotary
  /// frequencies) and the head's copy of a tied weight are ignored. Weights that are compressed are read as what their
  /// codes mean where `dequantise`. Refused: such weights else, a parameter that is missing or has another shape, a
  /// tensor that is no parameter of the model, a type that is not floating-point.
  static core::result<std::unique_ptr<weights_source>> open(const std::filesystem::path& path, const model_spec& spec,
                                                            const core::model_table& table, bool dequantise = false);
  ~weights_source();

  /// Elements [first, first + out.size()) of a parameter, rounded to fp32 where the file is wider. Refused: a value
  /// that fp32 does not hold.
  [[nodiscard]] core::result<void> read(uint32_t parameter, uint64_t first, std::span<float> out) const;

 private:
  struct stored {
    size_t file = 0;
    uint64_t begin = 0, bytes = 0;  ///< in the file
    core::dtype type = core::dtype::f32;
    const checkpoint::tensor_entry* of_source = nullptr;  ///< of `source_`, instead of all of these
  };
  weights_source();
  core::result<stored> place_of(const checkpoint::safetensors_file& file, const checkpoint::safetensors_entry& entry);

  std::unique_ptr<checkpoint::weights_folder> folder_;
  std::unique_ptr<const checkpoint::tensor_source> source_;  ///< instead of `folder_`: compressed, or of torch.save
  std::vector<core::source_file> files_;                     ///< shards with parameters
  std::vector<stored> parameters_;
  std::vector<std::string> names_;  ///< [parameter]
};

/// Fills `out` with elements of a parameter from `first` on, in fp32.
using parameter_reader = std::function<core::result<void>(uint32_t parameter, uint64_t first, std::span<float> out)>;

/// Writes config.json and the weights in `type` (fp32, bf16, fp16 or fp64; rounded once), sharded with an index beyond
/// `max_shard_bytes`. Asks `read` for rising ranges of one parameter after the other; holds a few MiB at a time.
/// The folder's previous contents stay until all weights are written.
core::result<void> write_folder(const std::filesystem::path& folder, const model_spec& spec,
                                const core::model_table& table, core::dtype type, const parameter_reader& read,
                                uint64_t max_shard_bytes = 5'000'000'000);

}  // namespace troupe::models
