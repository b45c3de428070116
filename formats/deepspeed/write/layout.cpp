#include "formats/deepspeed/write/layout.hpp"

#include <algorithm>
#include <numeric>

#include "core/math.hpp"

namespace troupe::formats {
namespace {
/// Alignment with which every partition of 16-bit elements begins at a multiple of 4 bytes; DeepSpeed aligns fp32
/// elements in the same way.
constexpr uint64_t start_alignment_elements = 2;
}  // namespace

group_partition partition_of_group(std::span<const uint64_t> numels, uint32_t ranks, uint32_t rank) {
  const uint64_t total = std::accumulate(numels.begin(), numels.end(), uint64_t{0});
  const uint64_t alignment = start_alignment_elements * ranks;
  group_partition out;
  out.elements = core::div_up(total, alignment) * alignment / ranks;
  const uint64_t begin = std::min(total, rank * out.elements), end = std::min(total, (rank + 1) * out.elements);
  out.padding = out.elements - (end - begin);
  uint64_t at = 0;
  for (uint32_t p = 0; p < numels.size(); ++p) {
    const uint64_t first = std::max(at, begin), last = std::min(at + numels[p], end);
    if (first < last) out.stretches.push_back({p, first - at, last - first});
    at += numels[p];
  }
  return out;
}

uint64_t rank_elements(uint64_t numel, uint32_t ranks) { return core::div_up(numel, uint64_t{ranks}); }

std::vector<std::vector<uint32_t>> sub_groups_of(std::span<const uint64_t> numels, uint32_t ranks,
                                                 uint64_t sub_group_size) {
  uint64_t total = 0;
  for (const uint64_t n : numels) total += rank_elements(n, ranks);
  const bool one = total <= sub_group_size;
  std::vector<std::vector<uint32_t>> out;
  bool open = false;
  uint64_t reached = 0;
  for (uint32_t p = 0; p < numels.size(); ++p) {
    if (!open) out.emplace_back();
    if (!open) reached = 0;
    out.back().push_back(p);
    reached += rank_elements(numels[p], ranks);
    open = one || reached < sub_group_size;
  }
  return out;
}

std::vector<flat_stretch> pieces_of_sub_group(std::span<const uint64_t> numels, std::span<const uint32_t> of,
                                              uint32_t ranks, uint32_t rank) {
  std::vector<flat_stretch> out;
  for (const uint32_t p : of) {
    const uint64_t n = numels[p], s = rank_elements(n, ranks), begin = std::min(n, rank * s);
    const uint64_t count = std::min(s, n - begin);
    if (count > 0) out.push_back({p, begin, count});
    if (count < s) out.push_back({flat_stretch::no_parameter, 0, s - count});
  }
  return out;
}

uint64_t elements_of(std::span<const flat_stretch> stretches) {
  uint64_t out = 0;
  for (const auto& s : stretches) out += s.count;
  return out;
}

}  // namespace troupe::formats
