// Writes the files of one model-parallel rank after the other in a folder that is being reshaped. Owns the layer files
// and the files of models without an optimizer; formats/deepspeed/write/writer.hpp writes all others.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/convert/reshape_plan.hpp"
#include "core/error.hpp"
#include "formats/deepspeed/write/writer.hpp"

namespace troupe::checkpoint {

/// Writes a sparse file of `bytes` zero bytes.
core::result<void> write_zeros(const std::filesystem::path& path, uint64_t bytes);

class reshape_files {
 public:
  /// Constructs a writer of files in `folder`, one rank after the other; `plan` must outlive it.
  reshape_files(storage::file_system& files, std::filesystem::path folder, const reshape_plan& plan);

  /// Writes all files of rank `rank`, whose tensors are `source`. `options.progress` receives the bytes of all ranks
  /// together.
  core::result<void> write_rank(uint32_t rank, const formats::tensor_source& source,
                                formats::deepspeed_write_options options);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] size_t files() const { return count_; }

 private:
  core::result<void> write_with_optimizer(const formats::tensor_source& s,
                                          const formats::deepspeed_write_options& options);
  core::result<void> write_model_file(uint32_t rank, const formats::tensor_source& s,
                                      const formats::deepspeed_write_options& options);
  core::result<void> write_layers(uint32_t rank, const formats::tensor_source& s,
                                  const formats::deepspeed_write_options& options);

  storage::file_system& files_;
  std::filesystem::path folder_;
  formats::parallel_degrees to_;
  const reshape_plan& plan_;
  bool has_optimizer_ = false;
  uint64_t bytes_ = 0;
  size_t count_ = 0;
};

}  // namespace troupe::checkpoint
