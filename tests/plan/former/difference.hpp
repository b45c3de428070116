// In what two plans differ; empty where in nothing.
#pragma once

#include <algorithm>
#include <string>

#include "plan/rank_plan.hpp"

namespace troupe::plan::former {

inline std::string sorted(std::vector<uint32_t> x) {
  std::sort(x.begin(), x.end());
  std::string out;
  for (uint32_t i : x) out += std::to_string(i) + " ";
  return out;
}

#define DIFFERS(what)                                 \
  if (!(a.what == b.what)) return #what " differs: ";

inline std::string difference(const instruction& a, const instruction& b) {
  DIFFERS(id) DIFFERS(kind) DIFFERS(lane) DIFFERS(guard) DIFFERS(use) DIFFERS(subject) DIFFERS(segment) DIFFERS(micro)
  DIFFERS(buffer) DIFFERS(staged) DIFFERS(what) DIFFERS(communicator) DIFFERS(sequence) DIFFERS(bytes) DIFFERS(flops)
  if (sorted(a.after) != sorted(b.after)) return "after: " + sorted(a.after) + " and " + sorted(b.after);
  return {};
}

inline std::string difference(const buffer& a, const buffer& b) {
  DIFFERS(pool) DIFFERS(offset) DIFFERS(bytes) DIFFERS(subject) DIFFERS(first) DIFFERS(last)
  return {};
}

inline std::string difference(const memory_table& a, const memory_table& b) {
  DIFFERS(parameters) DIFFERS(gathered) DIFFERS(master) DIFFERS(moments) DIFFERS(gradients) DIFFERS(accumulated)
  DIFFERS(activations) DIFFERS(offloaded_activations) DIFFERS(directions) DIFFERS(votes) DIFFERS(staging)
  DIFFERS(windows) DIFFERS(digests) DIFFERS(swapped) DIFFERS(undo) DIFFERS(deferred)
  return {};
}

inline std::string difference(const rank_plan& a, const rank_plan& b) {
  for (uint32_t i = 0; i < std::min(a.instructions.size(), b.instructions.size()); ++i) {
    if (a.describe(i) != b.describe(i)) return std::to_string(i) + ": " + a.describe(i) + " and " + b.describe(i);
    if (auto d = difference(a.instructions[i], b.instructions[i]); !d.empty())
      return std::to_string(i) + " " + a.describe(i) + ": " + d;
  }
  if (a.instructions.size() != b.instructions.size()) return "number of instructions";
  if (a.buffers.size() != b.buffers.size()) return "number of buffers";
  for (uint32_t i = 0; i < a.buffers.size(); ++i)
    if (auto d = difference(a.buffers[i], b.buffers[i]); !d.empty())
      return "buffer " + std::to_string(i) + " of " + a.describe(a.buffers[i].first) + ": " + d;
  for (uint32_t k = 0; k < num_pools; ++k)
    if (a.pool_bytes[k] != b.pool_bytes[k]) return "pool " + std::to_string(k);
  if (auto d = difference(a.memory, b.memory); !d.empty()) return "memory: " + d;
  DIFFERS(lanes) DIFFERS(num_collectives) DIFFERS(bucket_buffer) DIFFERS(peak_live_elements) DIFFERS(snapshots)
  DIFFERS(undo_offset) DIFFERS(undo_bytes) DIFFERS(swap_file_bytes)
  return {};
}

}  // namespace troupe::plan::former
