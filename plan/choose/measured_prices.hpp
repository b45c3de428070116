// What instructions cost as a run has measured them: the times that passes are chosen by. Owns what counts as the same
// instruction in another plan, and what one costs that no plan so far has had; telemetry/ measures.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "plan/choose/cost.hpp"

namespace troupe::plan {

/// Sums over instructions that count as the same.
struct price_sum {
  plan::kind kind = kind::load;
  plan::use use = use::forward;
  swapped what = swapped::nothing;
  bool near = false, again = false;
  uint32_t subject = none, segment = none;
  uint32_t piece = 0, pieces = 1;  ///< of a product and its exchange
  double seconds = 0;              ///< measured
  double modelled_s = 0, flops = 0;
  uint64_t bytes = 0, count = 0;
};

/// Means over ranks and micro-batches. Of one that was never measured: the modelled time, times what the measured ones
/// of its kind, else of its lane, took of theirs; the recompute of a unit as its forward, and that in other
/// pieces as its own.
class measured_prices {
 public:
  explicit measured_prices(const cost_model& costs) : costs_(costs) {}

  /// An instruction of a plan that has run took so many seconds by itself.
  void add(const rank_plan& p, const instruction& x, double seconds);
  /// What another rank has measured.
  void add(const price_sum& x);
  /// All that was added, in an order that is the same on every rank.
  [[nodiscard]] std::vector<price_sum> sums() const;
  /// Of an instruction of any plan of the same model with the same micro-batches. One that does more or less of what
  /// was measured, since units keep something else for it, costs as much more or less as modelled.
  [[nodiscard]] double seconds(const rank_plan& p, const instruction& x) const;
  [[nodiscard]] bool is_empty() const { return known_.empty(); }

 private:
  /// Kind, use, what is swapped, subject, segment, near, again, piece and of how many: what tells instructions of
  /// different plans apart.
  using key = std::tuple<plan::kind, plan::use, swapped, uint32_t, uint32_t, bool, bool, uint32_t, uint32_t>;
  struct mean {
    double seconds = 0, modelled_s = 0, flops = 0;
    uint64_t bytes = 0, count = 0;
  };
  [[nodiscard]] static key key_of(const rank_plan& p, const instruction& x);
  [[nodiscard]] double recomputed(const rank_plan& p, const instruction& x) const;

  cost_model costs_;
  std::map<key, mean> known_;
  std::map<std::pair<uint32_t, uint32_t>, mean> forward_of_;  // [unit, segment]: all pieces, counted by the first
  std::map<plan::kind, mean> of_kind_;
  std::map<plan::lane, mean> of_lane_;
};

}  // namespace troupe::plan
