// A file of torch.save before it is written, its tensors laid together from a source's. Owns the list of storages;
// their bytes are read while the file is written, so that memory stays at a block.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "checkpoint/source/source_reader.hpp"
#include "checkpoint/torch/archive_writer.hpp"

namespace troupe::checkpoint {

/// A file on its way: tensors() of it refer to storages that are read from the source while it is written.
class torch_file {
 public:
  explicit torch_file(source_reader& reader) : reader_(reader) {}

  struct stretch {  ///< elements of a source's tensor; null: zeros
    const tensor_entry* tensor = nullptr;
    uint64_t first = 0, count = 0;
  };
  /// A tensor with a storage of its own, of exactly its size: the stretches end to end, as `type`.
  torch_value tensor(core::dtype type, std::vector<int64_t> shape, std::vector<stretch> stretches);
  /// A whole tensor of the source.
  torch_value whole(core::dtype type, const tensor_entry& t);
  /// Of shape [0]. All of one type share a storage.
  torch_value nothing(core::dtype type);
  /// fp32, without dimensions.
  torch_value scalar(float value);

  [[nodiscard]] const std::vector<torch_storage>& storages() const { return storages_; }
  [[nodiscard]] uint64_t bytes() const;

  torch_value root = torch_value::dict();

 private:
  source_reader& reader_;
  std::vector<torch_storage> storages_;
  std::map<core::dtype, torch_value> nothing_;
};

}  // namespace troupe::checkpoint
