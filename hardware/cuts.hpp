// Enumerates the ways to divide a training step over ranks: degrees, micro-batches, pipeline chunks, stage of ZeRO,
// recomputation. Owns which of them are possible for a model's sizes; leaves their prices to step_cost.hpp. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::hardware {

/// The sizes that are divided: those of a model, the ranks, and the samples of a step on all of them.
struct cut_space {
  uint64_t ranks = 1, global_batch = 1;
  uint64_t layers = 1, heads = 1, kv_heads = 1, width = 1, inner = 1;
  std::vector<uint64_t> contexts = {1};  ///< degrees of context parallelism that are tried
};

/// One way to divide a step. Each data rank computes `micro_batches` micro-batches of `micro_batch` samples.
struct cut {
  uint64_t tensor = 1, pipeline = 1, data = 1, context = 1;
  uint64_t chunks = 1;  ///< stages of a pipeline rank: 1: 1F1B; more: interleaved 1F1B
  uint64_t micro_batch = 1, micro_batches = 1;
  uint32_t zero = 0;
  bool recompute = false;
  bool operator==(const cut&) const = default;
};

/// Largest number of stages of one pipeline rank that is considered.
inline constexpr uint64_t most_chunks = 8;

/// Returns all cuts of a space, in a fixed order: tensor ranks divide the heads, key-value heads and widths; stages
/// have equal numbers of layers; interleaved stages have a number of micro-batches that the pipeline's ranks divide;
/// data ranks and micro-batches divide the global batch. Without data ranks, ZeRO has stage 0 alone.
std::vector<cut> cuts_of(const cut_space& of);

}  // namespace troupe::hardware
