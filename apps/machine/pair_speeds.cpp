#include "apps/machine/pair_speeds.hpp"

#include <algorithm>
#include <limits>

namespace troupe::apps {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Returns the median of the values that differ from `none`, which marks missing values; 0 if all are missing.
double usual(std::vector<double> v, double none) {
  std::erase(v, none);
  if (v.empty()) return 0;
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::ranges::nth_element(v, at);
  return *at;
}

bool is_late(double is, double wanted) { return is > late_times * wanted && is > wanted + late_s; }
bool is_slow(double is, double wanted) { return is > 0 && is < slow_share * wanted; }

}  // namespace

pair_speeds::pair_speeds(const examined_cluster& all)
    : out(all.hosts.size(), 0), in(out), delay(all.hosts.size(), never) {
  for (const auto& p : all.pairs) {
    if (!p.problem.empty()) continue;
    out[p.from] = std::max(out[p.from], p.bytes_per_s);
    in[p.to] = std::max(in[p.to], p.bytes_per_s);
    for (const uint32_t h : {p.from, p.to}) delay[h] = std::min(delay[h], p.delay_s);
  }
  usual_out = usual(out, 0);
  usual_in = usual(in, 0);
  usual_delay = usual(delay, never);
  for (size_t h = 0; h < all.hosts.size(); ++h) {
    sends_slowly.push_back(is_slow(out[h], usual_out));
    takes_slowly.push_back(is_slow(in[h], usual_in));
    const bool late = delay[h] != never && is_late(delay[h], usual_delay);
    is_odd.push_back(sends_slowly[h] || takes_slowly[h] || late);
  }
}

bool pair_speeds::is_poor(const examined_pair& p) const {
  return p.bytes_per_s < slow_share * std::min(out[p.from], in[p.to]) ||
         is_late(p.delay_s, std::max(delay[p.from], delay[p.to]));
}

std::vector<size_t> doubtful_pairs(const examined_cluster& all, size_t most) {
  const pair_speeds speeds(all);
  std::vector<size_t> found;
  for (size_t i = 0; i < all.pairs.size() && found.size() < most; ++i) {
    const auto& p = all.pairs[i];
    if (p.problem.empty() && (speeds.is_odd[p.from] || speeds.is_odd[p.to] || speeds.is_poor(p))) found.push_back(i);
  }
  return found;
}

}  // namespace troupe::apps
