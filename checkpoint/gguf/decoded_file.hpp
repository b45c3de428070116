// The tensors of a GGUF file as plain elements in the order that models have them, as if they lay in a file one after
// the other: blocks become fp32, GPT-2's matrices are transposed back, Llama's rotary rows put in order. Nothing is
// kept in memory but what one read needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoint/gguf/families.hpp"
#include "checkpoint/gguf/header.hpp"
#include "checkpoint/source/source_view.hpp"

namespace troupe::checkpoint {

/// One tensor of the view.
struct decoded_tensor {
  gguf_tensor stored;
  uint64_t stored_begin = 0;  ///< byte of the GGUF file
  uint64_t begin = 0;         ///< byte of the view; multiples of 8
  gguf_order order = gguf_order::same;
  uint64_t head_rows = 0;  ///< of a rotary order

  [[nodiscard]] uint64_t bytes() const { return stored.elements() * core::size_of(dtype_of(stored.type)); }
};

/// What a source lists as a file.
class decoded_view final : public source_view {
 public:
  /// `tensors` ascend by `begin`; the GGUF file had `file_bytes` bytes.
  decoded_view(std::filesystem::path path, uint64_t file_bytes, std::vector<decoded_tensor> tensors)
      : path_(std::move(path)), file_bytes_(file_bytes), tensors_(std::move(tensors)) {}

  /// Reads begin and end at whole elements. A block whose scale is not finite is refused (bad_input), with tensor and
  /// byte.
  [[nodiscard]] core::result<std::unique_ptr<input_file>> open(file_system& files) const override;

  [[nodiscard]] bool is_compressed() const override;

  [[nodiscard]] uint64_t bytes() const {
    return tensors_.empty() ? 0 : tensors_.back().begin + tensors_.back().bytes();
  }

 private:
  std::filesystem::path path_;
  uint64_t file_bytes_;
  std::vector<decoded_tensor> tensors_;
};

}  // namespace troupe::checkpoint
