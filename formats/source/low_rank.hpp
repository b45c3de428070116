// A LoRA adapter in memory: the two matrices of each adapted layer. Readers of PEFT's folders and of GGUF files fill
// it; merged_adapter.hpp adds it to a base model. No file access.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::formats {

/// The adapter of one linear layer: its output for x grows by scale * B (A x).
struct low_rank_layer {
  std::string name;  ///< name of the layer in the base model
  uint64_t in = 0, out = 0, rank = 0;
  double scale = 1;
  std::vector<float> a, b;  ///< A (rank, in) and B (out, rank), row-major
};

struct low_rank_adapter {       ///< the layers of an adapter
  std::filesystem::path place;  ///< folder or file from which the adapter was read, for messages
  std::string base;             ///< base model that the adapter names; empty: none
  std::vector<low_rank_layer> layers;
};

}  // namespace troupe::formats
