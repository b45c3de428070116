#include "data/left_out.hpp"

#include <algorithm>

namespace troupe::data {
namespace {

std::vector<core::sample_range> all_of(std::span<const core::left_out_steps> decisions) {
  std::vector<core::sample_range> out;
  for (const auto& d : decisions) out.insert(out.end(), d.samples.begin(), d.samples.end());
  return out;
}

}  // namespace

left_out::left_out(std::span<const core::left_out_steps> decisions) : left_out(all_of(decisions)) {}

left_out::left_out(std::vector<core::sample_range> ranges) {
  std::ranges::sort(ranges, {}, &core::sample_range::begin);
  for (const auto& r : ranges) {
    if (r.begin >= r.end) continue;
    if (ranges_.empty() || r.begin > ranges_.back().end)
      ranges_.push_back(r);
    else
      ranges_.back().end = std::max(ranges_.back().end, r.end);
  }
  uint64_t before = 0;
  for (const auto& r : ranges_) {
    taken_before_.push_back(r.begin - before);
    before += r.size();
  }
}

uint64_t left_out::position_of(uint64_t taken) const {
  const auto after = std::ranges::upper_bound(taken_before_, taken);
  if (after == taken_before_.begin()) return taken;
  const auto last = static_cast<size_t>(after - taken_before_.begin()) - 1;
  return ranges_[last].end + (taken - taken_before_[last]);
}

std::vector<core::sample_range> left_out::positions(uint64_t taken, uint64_t count) const {
  std::vector<core::sample_range> out;
  while (count > 0) {
    const auto next = std::ranges::upper_bound(taken_before_, taken);
    const uint64_t run = next == taken_before_.end() ? count : std::min(count, *next - taken);
    const uint64_t begin = position_of(taken);
    out.push_back({begin, begin + run});
    taken += run;
    count -= run;
  }
  return out;
}

}  // namespace troupe::data
