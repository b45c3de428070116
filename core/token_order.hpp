// Groups the positions of a batch's inputs by the token at each position: the gradient of an embedding is summed in
// this order. The thread that prepares the batch computes the order on the host, so that no tokens have to be copied
// back from the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/sequence_columns.hpp"

namespace troupe::core {

/// Value that marks an input position without a target. Far below 0, so that it stays recognisable when a rank
/// subtracts the first token of its part of the vocabulary.
inline constexpr int64_t no_target = -(int64_t{1} << 40);
/// True if `target`, from which the first token of a part of the vocabulary may have been subtracted, is a token.
constexpr bool is_target(int64_t target) { return target > no_target; }

/// Positions of a batch, numbered row by row and grouped by id (usually the token at the position). The positions of
/// `ids[i]` are order[begin[i]] to order[begin[i + 1] - 1], ascending; every id occurs once, in ascending order.
struct token_order {
  std::vector<int64_t> ids, begin, order;
  bool operator==(const token_order&) const = default;
};

/// Returns the positions (indices) of the elements of `numbers`, grouped by the elements' values.
inline token_order order_of(std::span<const int64_t> numbers) {
  token_order out;
  out.order.resize(numbers.size());
  std::iota(out.order.begin(), out.order.end(), 0);
  const auto number = [&](int64_t place) { return numbers[static_cast<size_t>(place)]; };
  std::stable_sort(out.order.begin(), out.order.end(), [&](int64_t a, int64_t b) { return number(a) < number(b); });
  for (size_t i = 0; i < out.order.size(); ++i)
    if (out.ids.empty() || number(out.order[i]) != out.ids.back()) {
      out.ids.push_back(number(out.order[i]));
      out.begin.push_back(static_cast<int64_t>(i));
    }
  out.begin.push_back(static_cast<int64_t>(out.order.size()));
  return out;
}

/// Returns the positions of a batch's input tokens, grouped by token; the inputs are the first `columns` tokens of each
/// row of `columns` + 1.
inline token_order order_of_inputs(std::span<const int64_t> tokens, uint64_t columns) {
  std::vector<int64_t> inputs;
  inputs.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i)
    if (i % (columns + 1) != columns) inputs.push_back(tokens[i]);
  return order_of(inputs);
}

/// Returns the part of `all`, the order of a batch whose rows have `columns` tokens, that concerns the columns `own` of
/// one rank of a sequence group. Positions are renumbered as if each row consisted of these columns alone.
inline token_order order_within(const token_order& all, uint64_t columns, const column_set& own) {
  const auto own_columns = static_cast<uint64_t>(own.count());
  std::vector<int64_t> place_in_own(columns, -1);
  int64_t next = 0;
  for (const column_run& run : own.runs)
    for (int64_t i = 0; i < run.count; ++i) place_in_own[static_cast<size_t>(run.first + i)] = next++;
  token_order out;
  for (size_t i = 0; i < all.ids.size(); ++i) {
    const size_t begin = out.order.size();
    for (auto j = static_cast<size_t>(all.begin[i]); j < static_cast<size_t>(all.begin[i + 1]); ++j) {
      const auto place = static_cast<uint64_t>(all.order[j]);
      const int64_t column = place_in_own[place % columns];
      if (column >= 0) out.order.push_back(static_cast<int64_t>(place / columns * own_columns) + column);
    }
    if (out.order.size() == begin) continue;
    out.ids.push_back(all.ids[i]);
    out.begin.push_back(static_cast<int64_t>(begin));
  }
  out.begin.push_back(static_cast<int64_t>(out.order.size()));
  return out;
}

/// Returns the positions grouped by the distance from the start of their document. `document_start` contains, for each
/// position, the column of its row at which its document starts.
inline token_order order_of_columns(std::span<const uint32_t> document_start, uint64_t columns) {
  std::vector<int64_t> places(document_start.size());
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = static_cast<int64_t>(i % columns) - static_cast<int64_t>(document_start[i]);
  return order_of(places);
}

}  // namespace troupe::core
