#include "job/early_updates.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "job/open_sizes.hpp"
#include "plan/generate/generate.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/sets.hpp"

namespace troupe::job {
namespace {

/// Largest number of ranks of a job whose step time is predicted from the plans of all ranks; in larger jobs it is
/// predicted from the plan of one rank of each pipeline stage.
constexpr uint32_t early_ranks_max = 4;
/// A run changes to early updates (before the vote) if the fraction of undone steps is below this factor times the
/// fraction at which both orders are equally fast; the margin keeps a single step from changing the order.
constexpr double early_margin = 0.75;

/// Fraction of a step's time that early updates must save; with a smaller gain, states do not get a second place in the
/// swap file.
constexpr double early_gain_min = 0.05;

/// Returns the predicted seconds of a step if its vote (the decision about clipping and skipping) has the outcome
/// `taken`.
core::result<double> early_seconds(const std::shared_ptr<const core::model_table>& table, plan::plan_options options,
                                   bool early, plan::branch taken, const plan::cost_model& costs) {
  options.updates.speculate = early;
  TROUPE_ASSIGN(auto layout, plan::make_layout(table, options));
  std::vector<uint32_t> ranks;
  const auto& mesh = options.mesh;
  for (uint32_t r = 0; r < options.ranks() && options.ranks() <= early_ranks_max; ++r) ranks.push_back(r);
  for (uint32_t s = 0; s < mesh.degree(core::axis::pipeline) && options.ranks() > early_ranks_max; ++s)
    ranks.push_back(mesh.at_stage(0, s));
  std::vector<std::shared_ptr<const plan::rank_plan>> plans;
  for (const uint32_t r : ranks) {
    TROUPE_ASSIGN(auto made, plan::generate(layout, r));
    plans.push_back(std::move(made));
  }
  const auto price = [&](const plan::rank_plan& p, const plan::instruction& x) {
    return plan::acts(x.guard, taken) ? plan::predicted_seconds(p, x, costs) : 0;
  };
  return plan::play(plans, price, costs.latency_s).step_s;
}

}  // namespace

bool leaves_early_updates_open(const config::job_config& c) {
  const auto by_element = [](core::optimizer_type type) {
    return type != core::optimizer_type::lamb && type != core::optimizer_type::muon;
  };
  return c.early_updates == config::early_choice::automatic && c.zero_optimization.swaps() &&
         c.device == core::device_kind::cpu && !c.zero_optimization.offload_optimizer.speculates &&
         !c.zero_optimization.zenflow.enabled && by_element(c.optimizer.type) && !c.compile.enabled;
}

double compared_orders::worth() const {
  const double gain = late_s - early_s, loss = std::max(0.0, undone_s - late_s);
  return gain <= 0 ? 0 : gain / (gain + loss);
}

core::result<compared_orders> compare_orders(const std::shared_ptr<const core::model_table>& table,
                                             const plan::plan_options& trains, const plan::cost_model& costs) {
  compared_orders out;
  struct wanted {
    double* seconds;
    bool early;
    plan::branch taken;
  };
  const auto undone = trains.updates.may_clip ? plan::branch::clipped : plan::branch::skipped;
  for (const auto& [seconds, early, taken] :
       {wanted{&out.late_s, false, plan::branch::not_skipped}, wanted{&out.early_s, true, plan::branch::not_skipped},
        wanted{&out.undone_s, true, undone}}) {
    TROUPE_ASSIGN(const auto found, early_seconds(table, trains, early, taken, costs));
    *seconds = found;
  }
  return out;
}

core::result<open_order> leave_updates_open(const config::job_config& c,
                                            const std::shared_ptr<const core::model_table>& table,
                                            plan::plan_options trains, const plan::cost_model& costs, const go_on& more,
                                            plan::plan_options& waits) {
  if (!leaves_early_updates_open(c) || !trains.updates.may_undo()) return open_order{};
  TROUPE_ASSIGN(const auto one_place, early_seconds(table, waits, false, plan::branch::not_skipped, costs));
  trains.updates.speculate = trains.tiers.two_places = true;
  auto sized = with_open_sizes(c, table, std::move(trains), costs, more);
  if (!sized && sized.error().kind == core::error_kind::bad_input)
    return open_order{0, "updates wait for the gradient norm: early updates do not fit into the budget"};
  if (!sized) return core::fail(sized.error());
  TROUPE_ASSIGN(const auto orders, compare_orders(table, *sized, costs));
  const std::string compared = core::text_of(
      "a step is predicted to take %.1f ms with updates that wait for the norm, %.1f ms with early ones, %.1f ms where "
      "those are undone",
      1e3 * one_place, 1e3 * orders.early_s, 1e3 * orders.undone_s);
  if (orders.early_s > (1 - early_gain_min) * one_place || orders.worth() == 0)
    return open_order{0, core::text_of("updates wait for the gradient norm: %s, and early updates must save %.0f%%",
                                       compared.c_str(), 100 * early_gain_min)};
  waits = std::move(*sized);
  waits.updates.speculate = false;
  return open_order{orders.worth(),
                    core::text_of("updates begin early where at most %.0f%% of the last %u steps were clipped or "
                                  "skipped: %s",
                                  100 * early_margin * orders.worth(), undone_steps::window, compared.c_str())};
}

core::result<void> make_room_for_early_updates(blueprint& b) {
  for (const auto which : {plan::plan_choice::train, plan::plan_choice::train_saving}) {
    auto options = b.options[static_cast<size_t>(which)];
    options.updates.speculate = true;
    TROUPE_ASSIGN(const auto plans, step_plans::write(b.table, options));
    note_pools(plans, b.pools);
    TROUPE_TRY(plans.prove());
  }
  return {};
}

core::result<changed_steps> with_updates(const blueprint& b, bool early) {
  changed_steps out;
  out.train = b.options[static_cast<size_t>(plan::plan_choice::train)];
  out.train_saving = b.options[static_cast<size_t>(plan::plan_choice::train_saving)];
  out.train.updates.speculate = out.train_saving.updates.speculate = early;
  out.pools = b.pools;
  TROUPE_ASSIGN(auto plans, step_plans::write(b.table, out.train));
  out.plans = std::move(plans);
  TROUPE_ASSIGN(auto ranks, out.plans.proved());
  out.ranks = std::move(ranks);
  return out;
}

bool undone_steps::note(bool undone, bool early, double worth) {
  undone_ += undone ? 1 : 0;
  if (++seen_ < window) return false;
  const double share = double(undone_) / seen_;
  of_window_ = undone_;
  seen_ = undone_ = 0;
  return early ? share > worth : share < early_margin * worth;
}

std::string text_of_order(bool early, uint64_t steps, const undone_steps& undone, double worth) {
  return core::text_of(
      "after %llu steps: updates %s, since %u of the last %u were clipped or skipped (early updates are faster up to "
      "%.0f%%)",
      static_cast<unsigned long long>(steps), early ? "begin before the norm is known" : "wait for the norm again",
      undone.of_window(), undone_steps::window, 100 * worth);
}

}  // namespace troupe::job
