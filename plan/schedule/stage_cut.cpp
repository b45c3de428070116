#include "plan/schedule/stage_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "core/text.hpp"

namespace troupe::plan {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// A table over [number of stages in a partial cut][number of units in these stages].
template <class T>
class grid {
 public:
  grid(uint32_t stages, uint32_t units, T value)
      : width_(size_t{units} + 1), cells_((size_t{stages} + 1) * width_, value) {}
  T& operator()(uint32_t stages, uint32_t units) { return cells_[stages * width_ + units]; }

 private:
  size_t width_;
  std::vector<T> cells_;
};

// Returns the offsets of the cut; `begins` holds the unit at which the last stage of each partial cut begins.
stage_offsets offsets_of(grid<uint32_t>& begins, uint32_t stages, uint32_t units) {
  stage_offsets out(size_t{stages} + 1, units);
  for (uint32_t s = stages; s > 0; --s) out[s - 1] = begins(s, out[s]);
  return out;
}

}  // namespace

stage_offsets cut_evenly(uint32_t units, uint32_t stages) {
  stage_offsets out{0};
  for (uint32_t s = 0; s < stages; ++s) out.push_back(out.back() + units / stages + (s < units % stages ? 1 : 0));
  return out;
}

stage_offsets cut_by_weight(std::span<const double> weights, uint32_t stages) {
  const auto n = static_cast<uint32_t>(weights.size());
  if (n <= stages) return cut_evenly(n, stages);
  std::vector<double> sum(size_t{n} + 1, 0);
  for (uint32_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + weights[i];
  struct cell {
    double largest = infinite, smallest = infinite, range = infinite;
  };
  grid<cell> best(stages, n, {});
  grid<uint32_t> begins(stages, n, 0);
  best(0, 0) = {0, infinite, 0};
  for (uint32_t s = 1; s <= stages; ++s)
    for (uint32_t i = s; i <= n; ++i)
      for (uint32_t k = 0; k < i; ++k) {
        const cell before = best(s - 1, k);
        const double largest = std::max(before.largest, sum[i] - sum[k]);
        const double smallest = std::min(before.smallest, sum[i] - sum[k]);
        if (largest - smallest > best(s, i).range) continue;
        best(s, i) = {largest, smallest, largest - smallest};
        begins(s, i) = k;
      }
  return offsets_of(begins, stages, n);
}

core::result<stage_offsets> check_offsets(stage_offsets offsets, uint32_t units, uint32_t stages) {
  const auto refuse = [](const std::string& why) {
    return core::fail(core::error_kind::bad_input, "stage offsets: " + why);
  };
  if (offsets.size() != size_t{stages} + 1)
    return refuse(fmt::format("{} stages require {} offsets, got {}", stages, size_t{stages} + 1, offsets.size()));
  if (offsets.front() != 0 || offsets.back() != units)
    return refuse(fmt::format("wanted from 0 to {}, the number of units, got from {} to {}", units, offsets.front(),
                              offsets.back()));
  for (uint32_t s = 0; s < stages; ++s)
    if (offsets[s] >= offsets[s + 1])
      return refuse(fmt::format("stage {} has no unit: it begins at {} and ends at {}", s, offsets[s], offsets[s + 1]));
  return offsets;
}

namespace {

// Computes the time and bytes of any stage, as a range of units, from prefix sums.
class stage_sums {
 public:
  stage_sums(std::span<const unit_cost> units, const stage_limits& limits)
      : limits_(limits), states_(units.size() + 1, 0), activations_(states_) {
    times_.assign(units.size() + 1, 0);
    for (size_t u = 0; u < units.size(); ++u) {
      times_[u + 1] = times_[u] + units[u].step_s;
      states_[u + 1] = states_[u] + units[u].state_bytes;
      activations_[u + 1] = activations_[u] + units[u].activation_bytes;
    }
  }
  [[nodiscard]] double time(uint32_t begin, uint32_t end) const { return times_[end] - times_[begin]; }
  [[nodiscard]] bool fits(uint32_t stage, uint32_t begin, uint32_t end) const {
    const uint64_t in_flight = stage < limits_.in_flight.size() ? limits_.in_flight[stage] : 1;
    const uint64_t kept = in_flight * (activations_[end] - activations_[begin]);
    const uint64_t all = states_[end] - states_[begin] + kept;
    return kept <= limits_.activation_bytes && all <= limits_.memory_bytes;
  }

 private:
  const stage_limits& limits_;
  std::vector<double> times_;                   // [unit]: seconds of all units before it
  std::vector<uint64_t> states_, activations_;  // [unit]: bytes of all units before it
};

// Returns the least total over all cuts. `cost(stage, begin, end)` is infinite for a stage that is not allowed; `join`
// combines the total of the stages before with the cost of the last one. Of equal totals the smallest begin wins.
double least(uint32_t stages, uint32_t units, grid<uint32_t>& begins, auto&& cost, auto&& join) {
  grid<double> total(stages, units, infinite);
  total(0, 0) = 0;
  for (uint32_t s = 1; s <= stages; ++s)
    for (uint32_t i = s; i + (stages - s) <= units; ++i)  // leaves a unit for each later stage
      for (uint32_t k = s - 1; k < i; ++k) {
        const double sum = total(s - 1, k) == infinite ? infinite : join(total(s - 1, k), cost(s - 1, k, i));
        if (sum >= total(s, i)) continue;
        total(s, i) = sum;
        begins(s, i) = k;
      }
  return total(stages, units);
}

}  // namespace

core::result<best_cut> cut_best(std::span<const unit_cost> units, uint32_t stages, const stage_limits& limits) {
  const auto n = static_cast<uint32_t>(units.size());
  if (stages == 0 || n < stages)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("{} units make at most {} stages, wanted {}", n, n, stages));
  const stage_sums sums(units, limits);
  grid<uint32_t> begins(stages, n, 0);
  const auto time = [&](uint32_t s, uint32_t begin, uint32_t end) {
    return sums.fits(s, begin, end) ? sums.time(begin, end) : infinite;
  };
  const double slowest = least(stages, n, begins, time, [](double a, double b) { return std::max(a, b); });
  if (slowest == infinite)
    return core::fail(core::error_kind::no_space,
                      fmt::format("no cut of {} units into {} stages fits: each may have {}", n, stages,
                                  core::human_bytes(std::min(limits.memory_bytes, limits.activation_bytes))));
  // Prefix sums of floating-point numbers differ in the last bits from one begin to the next. All stages are compared
  // by the same sums, so the cut that gave the bound meets it exactly.
  const auto square = [&](uint32_t s, uint32_t begin, uint32_t end) {
    const double x = time(s, begin, end);
    return x > slowest ? infinite : x * x;
  };
  least(stages, n, begins, square, [](double a, double b) { return a + b; });
  best_cut out{offsets_of(begins, stages, n), 0, slowest};
  while (time(out.slowest, out.offsets[out.slowest], out.offsets[out.slowest + 1]) < slowest) ++out.slowest;
  return out;
}

}  // namespace troupe::plan
