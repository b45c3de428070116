// Presents the tensors of a GGUF file as plain elements in the order that models use, as if a file stored them one
// after the other: blocks become fp32, GPT-2's matrices are transposed, Llama's rotary rows are reordered. Memory holds
// only the data of one read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "formats/gguf/families.hpp"
#include "formats/gguf/header.hpp"
#include "formats/source/source_view.hpp"

namespace troupe::formats {

/// One tensor of a decoded_view: its entry in the GGUF file and its place in the view.
struct decoded_tensor {
  gguf_tensor stored;
  uint64_t stored_begin = 0;  ///< offset of the tensor's first byte in the GGUF file
  uint64_t begin = 0;         ///< offset of the tensor's first byte in the view; a multiple of 8
  gguf_order order = gguf_order::same;
  uint64_t head_rows = 0;  ///< number of rows of one attention head; used by the orders of heads only

  [[nodiscard]] uint64_t bytes() const { return stored.elements() * core::size_of(dtype_of(stored.type)); }
};

/// The decoded tensors of one GGUF file, as a file that a tensor_source lists.
class decoded_view final : public source_view {
 public:
  /// Makes a view of `tensors`, which ascend by `begin`. `file_bytes` is the size of the GGUF file when its header was
  /// read; open() refuses another size.
  decoded_view(std::filesystem::path path, uint64_t file_bytes, std::vector<decoded_tensor> tensors)
      : path_(std::move(path)), file_bytes_(file_bytes), tensors_(std::move(tensors)) {}

  /// Opens the GGUF file for reading. Reads must begin and end at whole elements. A read refuses (bad_input) a block
  /// whose scale is not finite and names its tensor and byte.
  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(storage::file_system& files) const override;

  [[nodiscard]] bool is_compressed() const override;

  [[nodiscard]] uint64_t bytes() const {
    return tensors_.empty() ? 0 : tensors_.back().begin + tensors_.back().bytes();
  }

 private:
  std::filesystem::path path_;
  uint64_t file_bytes_;
  std::vector<decoded_tensor> tensors_;
};

}  // namespace troupe::formats
