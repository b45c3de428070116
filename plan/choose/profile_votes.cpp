#include "plan/choose/profile_votes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::plan {
namespace {

bool is_time(double s) { return std::isfinite(s) && s >= 0; }

std::string too_many(size_t prices) {
  return fmt::format("wanted at most {} different instructions, got {}", vote_prices_max, prices);
}

// Returns the reason why no passes can be chosen from a rank's report; empty if they can.
std::string fault_of(const rank_vote& v) {
  if (!v.failure.empty()) return v.failure;
  if (v.prices.empty()) return "no step was measured";
  if (v.prices.size() > vote_prices_max) return too_many(v.prices.size());
  if (!is_time(v.step_s) || v.step_s == 0) return fmt::format("wanted the time of a step, got {:f} s", v.step_s);
  const auto wrong = std::ranges::find_if(
      v.prices, [](const price_sum& x) { return !is_time(x.seconds) || !is_time(x.modelled_s) || x.count == 0; });
  if (wrong == v.prices.end()) return {};
  return fmt::format("wanted the time of every {}, got {:f} s of {}", name_of(wrong->kind), wrong->seconds,
                     wrong->count);
}

}  // namespace

joined_votes join(std::span<const rank_vote> votes, uint32_t ranks, const cost_model& costs) {
  joined_votes out;
  const auto fails = [&](uint32_t rank, const std::string& why) {
    if (out.failure.empty()) out.failure = fmt::format("rank {} has no profile: {}", rank, why);
  };
  for (uint32_t r = 0; r < ranks; ++r) {
    if (r >= votes.size() || votes[r].rank != r) {
      fails(r, "it did not report one");
      break;
    }
    const auto& v = votes[r];
    if (const auto why = fault_of(v); !why.empty()) fails(r, why);
    if (v.memory_bytes > 0)
      out.memory_bytes = out.memory_bytes == 0 ? v.memory_bytes : std::min(out.memory_bytes, v.memory_bytes);
    out.peak_bytes = std::max(out.peak_bytes, v.peak_bytes);
  }
  if (votes.size() > ranks) fails(ranks, "the job does not have this rank");
  if (!out.failure.empty()) return out;
  auto prices = std::make_shared<measured_prices>(costs);
  for (const auto& v : votes) {
    out.step_s = std::max(out.step_s, v.step_s);
    for (const auto& x : v.prices) prices->add(x);
  }
  out.prices = std::move(prices);
  return out;
}

}  // namespace troupe::plan
