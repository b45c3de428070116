#include "plan/choose/knob_search.hpp"

#include <algorithm>
#include <optional>
#include <random>

namespace troupe::plan {
namespace {

/// If there is no memory limit, the windows onto swap files are at most 1 / `unlimited_windows` of the bytes in the
/// files.
constexpr uint64_t unlimited_windows = 2;
/// Maximum number of plans that one call of polished() tries.
constexpr size_t polish_plans_max = 150;
constexpr size_t trade_plans_max = 1000;
constexpr uint32_t random_starts = 4;
constexpr size_t single_settings_max = 16, pair_settings_max = 6;

}  // namespace

core::result<fitted> knob_search::judged(const levels& at) {
  if (const auto known = known_.find(at); known != known_.end()) return known->second;
  auto out = judge_(at);
  if (out) known_.emplace(at, *out);
  return out;
}

core::result<fitted> knob_search::climbed() {
  found_.assign(knobs_.size(), 0);
  return climb(found_, whether::fits);
}

core::result<fitted> knob_search::climbed_and_traded() {
  levels at(knobs_.size(), 0);
  auto best = climb(at, whether::fits);
  const size_t plans_max = known_.size() + trade_plans_max;
  for (bool better = best && best->fits; better;) {
    better = false;
    for (size_t k = 0; k < knobs_.size(); ++k)
      for (size_t s = at[k] + 1; s < knobs_[k].settings.size() && known_.size() < plans_max; ++s) {
        levels tried = at;
        tried[k] = s;
        auto x = judged(tried);
        if (x) x = reduced(tried, std::move(*x));
        if (!x) return x;
        if (!x->fits || x->step_s >= (1 - worth_it) * best->step_s) continue;
        at = std::move(tried);
        best = std::move(x);
        better = true;
      }
  }
  found_ = std::move(at);
  return best;
}

core::result<fitted> knob_search::hidden(fitted best) {
  if (!best.fits) return best;
  const double longest_s = (1 + worth_it) * best.step_s;
  for (size_t k = 0; k < knobs_.size(); ++k) {
    if (!knobs_[k].hiding || found_[k] >= knobs_[k].hiding_from) continue;
    levels tried = found_;
    tried[k] = knobs_[k].settings.size();
    auto x = judged(tried);
    if (x) x = reduced(tried, std::move(*x), k);
    if (!x) return x;
    if (!x->fits || x->step_s > longest_s) continue;
    found_ = std::move(tried);
    best = std::move(*x);
  }
  return best;
}

core::result<fitted> knob_search::best_of_starts() {
  levels at(knobs_.size(), 0);
  auto best = climb(at, whether::fits);
  if (!best) return best;
  if (best->fits) best = polished(std::move(at), std::move(*best));
  std::minstd_rand random;
  for (uint32_t start = 0; best && start <= random_starts; ++start) {
    levels from(knobs_.size(), 0);
    for (size_t k = 0; k < knobs_.size() && start > 0; ++k) from[k] = random() % knobs_[k].settings.size();
    auto x = start == 0 ? climb(from, whether::any) : judged(from);
    if (x) x = reduced(from, std::move(*x));
    if (!x) return x;
    if (!x->fits) continue;
    x = polished(std::move(from), std::move(*x));
    if (!x || !best->fits || x->step_s < best->step_s) best = std::move(x);
  }
  return best;
}

core::result<knob_search::levels> knob_search::further(const levels& at,
                                                       const std::function<double(const fitted&)>& worth) {
  levels out;
  double most = 0;
  for (size_t k = 0; k < knobs_.size(); ++k)
    for (size_t up = 1; up <= knobs_[k].look && at[k] + up < knobs_[k].settings.size(); ++up) {
      levels tried = at;
      tried[k] += up;
      TROUPE_ASSIGN(const auto x, judged(tried));
      if (const double w = worth(x); w > most) {
        most = w;
        out = std::move(tried);
      }
    }
  return out;
}

core::result<fitted> knob_search::climb(levels& at, whether counted) {
  const auto good = [&](const fitted& x) { return counted == whether::any || x.fits; };
  auto best = judged(at);
  while (best) {
    const auto smaller = [&](const fitted& x) {
      return x.missing < best->missing ? static_cast<double>(best->missing - x.missing) : 0;
    };
    const auto faster = [&](const fitted& x) {
      const double saved = best->step_s - x.step_s;
      if (!good(x) || saved < worth_it * best->step_s) return 0.0;
      // Without a memory limit every larger window would be accepted, and swapping would no longer save memory.
      if (memory_ == memory::free && x.memory.windows > x.memory.swapped / unlimited_windows) return 0.0;
      if (counted == whether::any) return saved;
      const uint64_t before = best->memory.total(), after = x.memory.total();
      return saved / (after > before ? static_cast<double>(after - before) : 1);
    };
    TROUPE_ASSIGN(auto next, good(*best) ? further(at, faster) : further(at, smaller));
    if (next.empty()) break;
    at = std::move(next);
    best = judged(at);
  }
  return best;
}

core::result<fitted> knob_search::reduced(levels& at, fitted best, size_t kept) {
  while (!best.fits) {
    std::optional<levels> next;
    double least = 0;
    for (size_t k = 0; k < knobs_.size(); ++k)
      for (size_t lower = 1; k != kept && lower <= at[k]; ++lower) {
        levels tried = at;
        tried[k] -= lower;
        const auto x = judged(tried);
        if (!x) return x;
        if (x->missing >= best.missing) continue;
        const double lost = (x->step_s - best.step_s) / static_cast<double>(best.missing - x->missing);
        if (next && lost >= least) continue;
        least = lost;
        next = std::move(tried);
      }
    if (!next) return best;
    at = std::move(*next);
    auto x = judged(at);
    if (!x) return x;
    best = std::move(*x);
  }
  return best;
}

core::result<fitted> knob_search::polished(levels at, fitted best) {
  const size_t plans_max = known_.size() + polish_plans_max;
  const auto try_it = [&](levels tried) -> core::result<bool> {
    if (known_.size() >= plans_max) return false;
    TROUPE_ASSIGN(auto x, judged(tried));
    if (!x.fits || x.step_s >= (1 - worth_it) * best.step_s) return false;
    at = std::move(tried);
    best = std::move(x);
    return true;
  };
  for (bool better = true; better;) {
    better = false;
    for (size_t k = 0; k < knobs_.size(); ++k)
      for (const size_t s : spread(k, single_settings_max)) {
        levels tried = at;
        tried[k] = s;
        TROUPE_ASSIGN(auto took, try_it(std::move(tried)));
        better |= took;
      }
    for (size_t k = 0; k < knobs_.size() && !better; ++k)
      for (size_t other = k + 1; other < knobs_.size() && !better; ++other)
        for (const size_t s : spread(k, pair_settings_max))
          for (const size_t t : spread(other, pair_settings_max)) {
            levels tried = at;
            tried[k] = s;
            tried[other] = t;
            TROUPE_ASSIGN(auto took, try_it(std::move(tried)));
            better |= took;
          }
  }
  return best;
}
std::vector<size_t> knob_search::spread(size_t k, size_t most) const {
  const size_t n = knobs_[k].settings.size(), taken = std::min(n, most);
  std::vector<size_t> out;
  for (size_t i = 0; i < taken; ++i) out.push_back(taken == 1 ? 0 : i * (n - 1) / (taken - 1));
  return out;
}

}  // namespace troupe::plan
