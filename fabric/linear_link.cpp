#include "fabric/linear_link.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "fabric/layout.hpp"

namespace troupe::fabric {
namespace {

/// Longest time of an operation, so that sums of times never overflow.
constexpr double longest_ns = 1e18;

int64_t rounded(double ns) { return static_cast<int64_t>(std::ceil(std::clamp(ns, 0.0, longest_ns))); }

}  // namespace

int64_t linear_link::duration_ns(uint64_t bytes) const {
  return static_cast<int64_t>(std::ceil(latency_us * 1e3 + static_cast<double>(bytes) / bytes_per_second * 1e9));
}

void time_curve::add(uint64_t bytes, int64_t ns) {
  const auto [at, is_new] = ns_of_bytes_.emplace(bytes, ns);
  if (!is_new) at->second = std::max(at->second, ns);
}

int64_t time_curve::duration_ns(uint64_t bytes) const {
  if (ns_of_bytes_.empty()) return 0;
  auto after = ns_of_bytes_.lower_bound(bytes);
  if (after != ns_of_bytes_.end() && (after->first == bytes || after == ns_of_bytes_.begin())) return after->second;
  if (ns_of_bytes_.size() == 1) return ns_of_bytes_.begin()->second;
  if (after == ns_of_bytes_.end()) --after;
  const auto before = std::prev(after);
  const double slope =
      static_cast<double>(after->second - before->second) / static_cast<double>(after->first - before->first);
  return rounded(static_cast<double>(before->second) + slope * static_cast<double>(bytes - before->first));
}

void time_curve::slow(double factor, int64_t more_ns) {
  for (auto& [bytes, ns] : ns_of_bytes_) ns = rounded(static_cast<double>(ns) * factor + static_cast<double>(more_ns));
}

int64_t duration_ns(const operation_curves& curves, const request& r, uint32_t size) {
  const uint64_t bytes = received_bytes(r, size);
  if (const auto own = curves.find(r.op); own != curves.end()) return own->second.duration_ns(bytes);
  int64_t out = 0;
  for (const auto& [op, curve] : curves) out = std::max(out, curve.duration_ns(bytes));
  return out;
}

}  // namespace troupe::fabric
