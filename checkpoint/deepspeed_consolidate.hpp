// From an index to bytes: one state of a tensor as a stream of fp32 elements, and whole folders of weights. Owns
// the open files; the layout is deepspeed_folder's and the output's form weights_folder's.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/deepspeed_folder.hpp"
#include "checkpoint/weights_folder.hpp"

namespace troupe::checkpoint {

/// Files kept open at once.
inline constexpr size_t max_open_shards = 128;

/// Reads pieces of an index's files. For one thread at a time; `index` outlives it.
class piece_reader {
 public:
  explicit piece_reader(const deepspeed_index& index) : index_(index), open_(index.files.size(), -1) {}
  piece_reader(const piece_reader&) = delete;
  piece_reader& operator=(const piece_reader&) = delete;
  ~piece_reader();

  /// Fills `out` with the bytes of `state` from `offset_bytes` on. A file that has become shorter is error_kind::io.
  core::result<void> read(const stored_state& state, uint64_t offset_bytes, std::span<std::byte> out);

 private:
  core::result<int> opened(uint32_t file);
  void close_all();

  const deepspeed_index& index_;
  std::vector<int> open_;  ///< descriptors, -1 where closed
  size_t open_count_ = 0;
};

/// fp64, bf16 or fp16 elements as the out.size() / 4 fp32 values they mean; fp64 is rounded.
void widen_to_fp32(core::dtype type, std::span<const std::byte> in, std::span<std::byte> out);

struct consolidate_options {
  uint64_t max_shard_bytes = default_shard_bytes;
  bool exclude_frozen = false;
};

/// Writes the fp32 masters and buffers (floating ones as fp32, as DeepSpeed's converter does) and the frozen weights
/// (in their own type, likewise) as safetensors into `folder`; a shared name has its owner's bytes once more. Blocks of
/// write_block_bytes are all that lies in memory.
core::result<void> consolidate_to_fp32(const deepspeed_index& index, const std::filesystem::path& folder,
                                       const consolidate_options& options = {});

}  // namespace troupe::checkpoint
