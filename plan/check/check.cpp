#include "plan/check/check.hpp"

#include <algorithm>

#include "plan/check/rules.hpp"

namespace troupe::plan {
namespace rules {

std::string name(const step_plan& p, uint32_t id) {
  return p.describe(id) + " (instruction " + std::to_string(id) + ")";
}

tl::unexpected<core::error> broken(const step_plan& p, const std::string& what) {
  return core::fail(core::error_kind::bug, "the plan of rank " + std::to_string(p.rank) + ": " + what);
}

tl::unexpected<core::error> broken(const step_plan& p, uint32_t id, const std::string& what) {
  return broken(p, name(p, id) + " " + what);
}

core::result<void> in_order(const world& w, uint32_t rank, uint32_t a, uint32_t b, const std::string& why) {
  if (w.before(rank, a, b)) return {};
  return broken(*w.ranks[rank], b, "does not wait for " + name(*w.ranks[rank], a) + ", " + why);
}

// The vote decides, so nothing can be guarded before it; and what always runs cannot wait for what may not run.
core::result<void> guards(const world& w, uint32_t rank) {
  const step_plan& p = *w.ranks[rank];
  const uint32_t vote = w.rolls[rank].vote;
  for (const auto& x : p.instructions) {
    if (!runs(x, w.taken)) continue;
    const bool speculates = x.kind == kind::update && p.speculates(x.subject);  // proved in speculation.cpp
    const bool changes_states =
        (x.kind == kind::update && !speculates) || x.kind == kind::publish || x.kind == kind::prepare;
    if (x.guard == guard::always) {
      if (changes_states) return broken(p, x.id, "runs even if the vote finds an overflow");
      if (x.lane == lane::io && vote != none && w.before(rank, vote, x.id))
        return broken(p, x.id, "moves states after the vote even if that finds an overflow");
      for (uint32_t on : x.after)
        if (p.instructions[on].guard != guard::always)
          return broken(p, x.id, "always runs but waits for " + name(p, on) + ", which a skipped step leaves out");
    } else if (vote == none || !w.before(rank, vote, x.id)) {
      return broken(p, x.id, "is guarded by a vote that it does not wait for");
    }
  }
  return {};
}

namespace {

core::result<world> look_at(rank_plans ranks, branch taken) {
  auto order = happens_before::build(ranks, taken);
  if (!order) return core::fail(order.error());
  world w{ranks, taken, std::move(*order), {}, {}};
  for (const auto& p : ranks) {
    auto r = call_roll(*p, taken);
    if (!r) return core::fail(r.error());
    w.rolls.push_back(std::move(*r));
  }
  const auto& table = *ranks[0]->table;
  w.units_of.resize(table.parameters.size());
  for (uint32_t u = 0; u < table.units.size(); ++u)
    for (uint32_t q : table.units[u].parameters) w.units_of[q].push_back(u);
  return w;
}

core::result<void> does_nothing_else(const world& w, uint32_t rank) {
  const step_plan& p = *w.ranks[rank];
  for (const auto& x : p.instructions)
    if (x.lane != lane::writer) return broken(p, x.id, "has no place in a plan that only saves");
  if (p.peak_live_elements != 0) return broken(p, "it only saves and says that it gathers parameters");
  return {};
}

core::result<void> prove(const world& w) {
  using rule = core::result<void> (*)(const world&, uint32_t);
  const bool only_saves = w.ranks[0]->options.mode == mode::save;
  for (uint32_t r = 0; r < w.ranks.size(); ++r)
    for (rule holds :
         only_saves ? std::vector<rule>{does_nothing_else, saves, slots}
                    : std::vector<rule>{compute, residency, gradients, swaps, activations, speculation, saves, slots})
      if (auto ok = holds(w, r); !ok) return ok;
  if (only_saves) return {};
  if (w.taken == branch::skipped) return {};
  for (uint32_t r = 0; r < w.ranks.size(); ++r)
    for (auto rule : {guards, updates, optimizer})
      if (auto ok = rule(w, r); !ok) return ok;
  return publishes(w);
}

}  // namespace
}  // namespace rules

core::result<void> check(rank_plans ranks) {
  if (ranks.empty()) return core::fail(core::error_kind::bug, "a check wants at least one rank's plan, got none");
  for (const auto& p : ranks)
    if (auto ok = rules::structure(*p); !ok) return ok;
  if (auto ok = rules::agreement(ranks); !ok) return ok;
  for (const auto& p : ranks)
    for (auto rule : {rules::layouts, rules::swap_layout})
      if (auto ok = rule(*p); !ok) return ok;
  for (const auto& p : ranks)
    if (auto ok = rules::undo_copies(*p); !ok) return ok;
  if (auto ok = rules::pieces(ranks); !ok) return ok;
  if (auto ok = rules::saved_once(ranks); !ok) return ok;
  const auto guarded = [](const instruction& x) { return x.guard != guard::always; };
  const auto speculated = [](uint64_t offset) { return offset != no_undo; };
  for (const branch taken : {branch::not_skipped, branch::skipped}) {
    // Without guards, and with nothing to take back, both branches are one.
    if (taken == branch::skipped && std::none_of(ranks.begin(), ranks.end(), [&](const auto& p) {
          return std::any_of(p->undo_offset.begin(), p->undo_offset.end(), speculated) ||
                 std::any_of(p->instructions.begin(), p->instructions.end(), guarded);
        }))
      break;
    auto world = rules::look_at(ranks, taken);
    if (!world) return core::fail(world.error());
    if (taken == branch::not_skipped)
      for (const auto& p : ranks)
        if (auto ok = rules::serial(*p); !ok) return ok;
    if (auto ok = rules::prove(*world); !ok)
      return core::fail(taken == branch::skipped ? ok.error().in("when the step is skipped") : ok.error());
  }
  for (const auto& p : ranks)
    if (auto ok = rules::memory(*p); !ok) return ok;
  return {};
}

}  // namespace troupe::plan
