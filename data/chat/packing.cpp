#include "data/chat/packing.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace troupe::data {

packed_rows pack_rows(std::span<const uint32_t> lengths, uint64_t room) {
  std::vector<uint32_t> by_length(lengths.size());
  std::iota(by_length.begin(), by_length.end(), 0U);
  std::ranges::stable_sort(by_length, [&](uint32_t a, uint32_t b) { return lengths[a] > lengths[b]; });
  std::set<std::pair<uint64_t, uint32_t>> open;  // room that is left in a row, and the row
  std::vector<uint32_t> row_of(lengths.size());
  uint32_t rows = 0;
  for (const uint32_t sample : by_length) {
    const auto at = open.lower_bound({lengths[sample], 0});
    uint64_t left = room;
    if (at == open.end()) {
      row_of[sample] = rows++;
    } else {
      row_of[sample] = at->second;
      left = at->first;
      open.erase(at);
    }
    left -= lengths[sample];
    if (left > 0) open.insert({left, row_of[sample]});
  }
  // Rows get new numbers, in the order of their first samples.
  std::vector<uint32_t> renamed(rows, rows);
  uint32_t next = 0;
  for (uint32_t& row : row_of) {
    if (renamed[row] == rows) renamed[row] = next++;
    row = renamed[row];
  }
  packed_rows out;
  out.begin.assign(uint64_t{rows} + 1, 0);
  for (const uint32_t row : row_of) ++out.begin[row + 1];
  std::partial_sum(out.begin.begin(), out.begin.end(), out.begin.begin());
  out.order.resize(lengths.size());
  auto place = out.begin;
  for (uint32_t sample = 0; sample < row_of.size(); ++sample) out.order[place[row_of[sample]]++] = sample;
  return out;
}

packed_rows single_rows(uint64_t samples) {
  packed_rows out;
  out.order.resize(samples);
  out.begin.resize(samples + 1);
  std::iota(out.order.begin(), out.order.end(), uint32_t{0});
  std::iota(out.begin.begin(), out.begin.end(), uint64_t{0});
  return out;
}

}  // namespace troupe::data
