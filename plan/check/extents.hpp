// Owns the checks of runs of elements or bytes that must not overlap. For the checker and its tests only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/math.hpp"

namespace troupe::plan::rules {

/// The elements (or bytes) from `first` up to, but not including, `end`.
struct extent {
  uint64_t first = 0, end = 0;
};

/// Sorts the ranges. Returns true if no two overlap and none ends beyond `elements`.
inline bool apart(std::vector<extent>& all, uint64_t elements) {
  std::erase_if(all, [](const extent& x) { return x.first == x.end; });
  const auto is_before = [](const extent& a, const extent& b) { return a.first < b.first; };
  if (!std::is_sorted(all.begin(), all.end(), is_before)) std::sort(all.begin(), all.end(), is_before);
  uint64_t end = 0;
  for (const auto& x : all) {
    if (x.first < end || x.end > elements) return false;
    end = x.end;
  }
  return true;
}

/// Appends range `x`, or extends the last range if `x` continues it.
inline void add_extent(std::vector<extent>& all, const extent& x) {
  if (!all.empty() && all.back().end == x.first)
    all.back().end = x.end;
  else
    all.push_back(x);
}

/// True if the parameters that are held do not overlap, end within `elements`, and start at multiples of
/// core::parameter_grain. `at[q]` is the offset of parameter `q`, and `count(q)` the number of its elements that are
/// held; 0: the parameter is not held.
bool lies_well(const std::vector<uint64_t>& at, uint64_t elements, auto count) {
  uint64_t end = 0;
  bool rises = true;  // true while each extent begins after the one before it, as in all layouts that writers make
  for (uint32_t q = 0; q < at.size() && rises; ++q) {
    const uint64_t elements_of_it = count(q);
    if (elements_of_it == 0) continue;
    if (at[q] % core::parameter_grain != 0) return false;
    rises = at[q] >= end && at[q] <= elements;
    end = at[q] + elements_of_it;
  }
  if (rises) return end <= elements;
  std::vector<extent> all;
  for (uint32_t q = 0; q < at.size(); ++q) {
    const uint64_t elements_of_it = count(q);
    if (elements_of_it == 0) continue;
    if (at[q] % core::parameter_grain != 0) return false;
    all.push_back({at[q], at[q] + elements_of_it});
  }
  return apart(all, elements);
}

}  // namespace troupe::plan::rules
