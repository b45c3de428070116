// Tensors of torch.save whose elements lie in another order than their own, such as a transposed matrix, as files in
// which they lie one after the other. Owns when a tensor becomes such a file and how its elements are gathered, in
// blocks; runs of elements that are few stay pieces, see pieces.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "checkpoint/source/source_view.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

/// Runs of elements of one tensor that are pieces; a tensor of more is gathered.
inline constexpr uint64_t max_strided_pieces = 1024;
/// What is gathered at once, and how much of the file one read takes for it at most: of each thread that reads.
inline constexpr uint64_t gathered_block_bytes = uint64_t{4} << 20, gather_read_bytes = uint64_t{8} << 20;
/// Blocks of one source that are kept, as readers want parts of them, one after the other.
inline constexpr size_t gathered_blocks_kept = 8;

/// Blocks that were gathered last; for any number of threads.
class gathered_blocks {
 public:
  using block = std::shared_ptr<const std::vector<std::byte>>;
  /// Null where it is not kept.
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

/// Gives the tensors of one source their pieces. Lives no longer than the source is being read together.
class strided_views {
 public:
  /// Adds the elements of `t`, whose places count from the begin of file number `file` of `s`: pieces of it, or of a
  /// file that is added to `s`. A tensor that repeats its elements more than max_pieces times is refused (limit).
  core::result<void> add(std::vector<piece>& out, tensor_source& s, uint32_t file, const torch_tensor& t);

 private:
  using key = std::tuple<uint32_t, uint64_t, core::dtype, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<key, uint32_t> known_;  ///< files of views
  std::shared_ptr<gathered_blocks> blocks_ = std::make_shared<gathered_blocks>();
};

}  // namespace troupe::checkpoint
