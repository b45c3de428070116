// Writes one GGUF file from its begin to its end: the header, then tensors as their bytes come. Appears whole or not at
// all. What the bytes are is the caller's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/files/streamed_file.hpp"
#include "checkpoint/gguf/header.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// One file on its way; without commit() nothing remains.
class gguf_writer {
 public:
  /// Writes the header. Refused as format_gguf_header() refuses.
  static core::result<gguf_writer> create(const std::filesystem::path& target, const gguf_metadata& metadata,
                                          std::vector<gguf_tensor> tensors);

  /// The next bytes of the tensors, in their order; padding is not among them.
  core::result<void> write(std::span<const std::byte> bytes);

  /// Gives the file its name; error_kind::bug where bytes of a tensor are missing.
  core::result<void> commit();

  [[nodiscard]] uint64_t bytes() const { return bytes_; }  ///< of the file that commit() leaves

 private:
  gguf_writer(streamed_file out, std::vector<gguf_tensor> tensors, uint64_t alignment, uint64_t header_bytes);
  core::result<void> pad();

  streamed_file out_;
  std::vector<gguf_tensor> tensors_;
  uint64_t alignment_ = 0, bytes_ = 0;
  size_t at_ = 0;            ///< tensor that is being written
  uint64_t left_bytes_ = 0;  ///< of it
};

}  // namespace troupe::checkpoint
