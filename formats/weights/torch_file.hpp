// A torch.save file that is being assembled from a source's tensors. Owns the list of storages; their bytes are read
// while the file is written, so that memory stays at one block.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "formats/source/source_reader.hpp"
#include "formats/torch/archive_writer.hpp"

namespace troupe::formats {

/// Contents of a torch.save file before it is written. Values that tensor() returns refer to storages whose bytes are
/// read from the source during the write.
class torch_file {
 public:
  explicit torch_file(source_reader& reader) : reader_(reader) {}

  struct stretch {  ///< `count` consecutive elements of `tensor` from element `first` on; zeros if `tensor` is null
    const tensor_entry* tensor = nullptr;
    uint64_t first = 0, count = 0;
  };
  /// Returns a tensor of shape `shape` with its own storage: the elements of all stretches in order, as `type`.
  torch_value tensor(core::dtype type, std::vector<int64_t> shape, std::vector<stretch> stretches);
  /// Returns the whole tensor `t` of the source, converted to `type`, with its own storage.
  torch_value whole(core::dtype type, const tensor_entry& t);
  /// Returns a tensor of shape [0]. All such tensors of one type share a storage.
  torch_value nothing(core::dtype type);
  /// Returns an fp32 tensor without dimensions.
  torch_value scalar(float value);

  [[nodiscard]] const std::vector<torch_storage>& storages() const { return storages_; }
  [[nodiscard]] uint64_t bytes() const;

  torch_value root = torch_value::dict();

 private:
  source_reader& reader_;
  std::vector<torch_storage> storages_;
  std::map<core::dtype, torch_value> nothing_;
};

}  // namespace troupe::formats
