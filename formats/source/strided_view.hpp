// Presents torch.save tensors whose elements are not stored in row-major order, such as a transposed matrix, as virtual
// files with the elements in this order. Owns the condition under which a tensor becomes a virtual file, and the
// gathering of its elements in blocks. A tensor with few runs of elements stays a list of pieces, see pieces.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "formats/source/source_view.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

/// Largest number of pieces of one tensor; a tensor with more runs of adjacent elements is gathered.
inline constexpr uint64_t max_strided_pieces = 1024;
/// Size of a gathered block in bytes, and largest number of bytes of the file that one read for it covers. Each reading
/// thread uses a buffer of each size.
inline constexpr uint64_t gathered_block_bytes = uint64_t{4} << 20, gather_read_bytes = uint64_t{8} << 20;
/// Number of gathered blocks of a source that are kept, because readers ask for parts of a block one after the other.
inline constexpr size_t gathered_blocks_kept = 8;

/// Cache of the blocks that were used last; any number of threads may use the cache.
class gathered_blocks {
 public:
  using block = std::shared_ptr<const std::vector<std::byte>>;
  /// Returns block `number` of the virtual file `owner`; null if the block is not in the cache.
  [[nodiscard]] block find(const void* owner, uint64_t number);
  void keep(const void* owner, uint64_t number, block b);

 private:
  struct slot {
    const void* owner = nullptr;
    uint64_t number = 0, used = 0;
    block content;
  };
  std::mutex mutex_;
  uint64_t uses_ = 0;
  std::array<slot, gathered_blocks_kept> slots_;
};

/// Adds pieces to the tensors of one source while that source is being built; not used afterwards.
class strided_views {
 public:
  /// Adds the elements of `t`, whose offsets count from the beginning of file number `file` of `s`: as pieces of that
  /// file, or of a virtual file that is added to `s`. A tensor that repeats its elements more than max_pieces times is
  /// refused (limit).
  core::result<void> add(std::vector<piece>& out, tensor_source& s, uint32_t file, const torch_tensor& t);

 private:
  using key = std::tuple<uint32_t, uint64_t, core::dtype, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<key, uint32_t> known_;  ///< [properties of a view]: number of the virtual file that represents the view
  std::shared_ptr<gathered_blocks> blocks_ = std::make_shared<gathered_blocks>();
};

}  // namespace troupe::formats
