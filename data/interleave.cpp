// Converts the weights of sources to whole numbers, and computes the pattern of a mixture by the quota method.
#include "data/interleave.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <optional>

namespace troupe::data {
namespace {

std::optional<std::vector<uint64_t>> exact_shares(std::span<const double> weights) {
  for (double scale = 1; scale <= 1e6; scale *= 10) {
    std::vector<uint64_t> shares;
    uint64_t common = 0;
    for (const double w : weights) {
      const double scaled = w * scale;
      const double whole = std::round(scaled);
      if (whole < 1 || whole > 1e12 || std::abs(scaled - whole) > 1e-9 * whole) break;
      shares.push_back(static_cast<uint64_t>(whole));
      common = std::gcd(common, shares.back());
    }
    if (shares.size() < weights.size()) continue;
    uint64_t sum = 0;
    for (auto& s : shares) sum += s /= common;
    if (sum <= max_pattern) return shares;
  }
  return std::nullopt;
}

std::vector<uint64_t> rounded_shares(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> shares;
  std::vector<std::pair<double, size_t>> rest;
  // Every source has at least one position of the pattern; the others are distributed by weight.
  uint64_t left = max_pattern - weights.size();
  const auto others = static_cast<double>(left);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double wanted = std::max(0.0, weights[i] / sum * static_cast<double>(max_pattern) - 1);
    const double whole = std::min(std::floor(wanted), others);
    const auto given = std::min(left, static_cast<uint64_t>(whole));
    shares.push_back(1 + given);
    left -= given;
    rest.emplace_back(whole - wanted, i);
  }
  std::sort(rest.begin(), rest.end());  // the largest remainder first; ties go to the first source
  for (size_t i = 0; i < rest.size() && left > 0; ++i, --left) ++shares[rest[i].second];
  return shares;
}

}  // namespace

core::result<std::vector<uint64_t>> shares_of(std::span<const double> weights) {
  const auto refuse = [](std::string why) { return core::fail(core::error_kind::bad_input, std::move(why)); };
  if (weights.empty() || weights.size() > max_sources)
    return refuse(fmt::format("wanted 1 to {} sources, got {}", max_sources, weights.size()));
  for (const double w : weights)
    if (!(w > 0) || !std::isfinite(w)) return refuse(fmt::format("a source's weight must be above 0, got {}", w));
  if (!std::isfinite(std::accumulate(weights.begin(), weights.end(), 0.0)))
    return refuse("the weights of all sources must have a sum that is a number: divide all of them by the largest");
  if (auto exact = exact_shares(weights)) return *exact;
  return rounded_shares(weights);
}

interleave::interleave(std::span<const uint64_t> shares) : shares_(shares.begin(), shares.end()) {
  assert(!shares.empty());
  if (shares.size() == 1) return;
  const uint64_t sum = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
  std::vector<uint32_t> come(shares.size());
  pattern_.reserve(sum);
  __extension__ using wide = unsigned __int128;
  for (uint64_t t = 0; t < sum; ++t) {
    size_t best = shares.size();
    for (size_t i = 0; i < shares.size(); ++i) {
      // One more position would give the source more than its share of the first t + 1, rounded up.
      if (wide{come[i]} * sum >= wide{shares[i]} * (t + 1)) continue;
      if (best == shares.size() || wide{shares[i]} * (come[best] + 1) > wide{shares[best]} * (come[i] + 1)) best = i;
    }
    assert(best < shares.size());
    pattern_.push_back({static_cast<uint32_t>(best), come[best]++});
  }
}

interleave::place interleave::at(uint64_t position) const {
  if (pattern_.empty()) return {0, position};
  const step& s = pattern_[position % pattern_.size()];
  return {s.source, position / pattern_.size() * shares_[s.source] + s.before};
}

}  // namespace troupe::data
