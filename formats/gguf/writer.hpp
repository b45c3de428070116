// Writes one GGUF file from its beginning to its end: the header, then the tensors' bytes as the caller passes them.
// The file appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "formats/gguf/header.hpp"
#include "storage/files/streamed_file.hpp"

namespace troupe::formats {

/// A GGUF file that is being written; destruction without commit() removes it.
class gguf_writer {
 public:
  /// Creates the file and writes its header. Errors include those of format_gguf_header().
  static core::result<gguf_writer> create(const std::filesystem::path& target, const gguf_metadata& metadata,
                                          std::vector<gguf_tensor> tensors);

  /// Writes the next bytes of the tensors, in the order of `create()`'s list; the writer adds the padding itself.
  core::result<void> write(std::span<const std::byte> bytes);

  /// Renames the file to its final name; error_kind::bug if bytes of a tensor are missing.
  core::result<void> commit();

  [[nodiscard]] uint64_t bytes() const { return bytes_; }  ///< size of the file that commit() leaves

 private:
  gguf_writer(storage::streamed_file out, std::vector<gguf_tensor> tensors, uint64_t alignment, uint64_t header_bytes);
  core::result<void> pad();

  storage::streamed_file out_;
  std::vector<gguf_tensor> tensors_;
  uint64_t alignment_ = 0, bytes_ = 0;
  size_t at_ = 0;            ///< index of the tensor that is being written
  uint64_t left_bytes_ = 0;  ///< bytes of tensor `at_` that were not written yet
};

}  // namespace troupe::formats
