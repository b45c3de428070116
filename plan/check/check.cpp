#include "plan/check/check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/check/rules.hpp"
#include "plan/layout/own.hpp"

namespace troupe::plan {
namespace rules {

std::string name(const rank_plan& p, uint32_t id) { return fmt::format("{} (instruction {})", p.describe(id), id); }

tl::unexpected<core::error> broken(const rank_plan& p, const std::string& what) {
  return core::fail(core::error_kind::bug, fmt::format("the plan of rank {}: {}", p.rank, what));
}

tl::unexpected<core::error> broken(const job_layout&, const std::string& what) {
  return core::fail(core::error_kind::bug, "the layout that all ranks' plans share: " + what);
}

tl::unexpected<core::error> broken(const rank_plan& p, uint32_t id, const std::string& what) {
  return broken(p, name(p, id) + " " + what);
}

core::result<void> in_order(const world& w, uint32_t rank, uint32_t a, uint32_t b, const std::string& why) {
  if (w.before(rank, a, b)) return {};
  return broken(*w.ranks[rank], b, "does not wait for " + name(*w.ranks[rank], a) + ", " + why);
}

bool starts_after(const world& w, uint32_t rank, uint32_t a, uint32_t b) {
  const rank_plan& p = *w.ranks[rank];
  if (p.instructions[b].lane != lane::fabric) return w.before(rank, a, b);
  const auto& order = p.lanes[static_cast<size_t>(lane::fabric)];
  const auto ended_for = [&](uint32_t on) { return on == a || w.before(rank, a, on); };
  // A communicator's collectives start in order, so `b` starts after every instruction for which an earlier collective
  // of its communicator has waited.
  for (auto it = std::find(order.rbegin(), order.rend(), b); it != order.rend() && *it != a; ++it) {
    const instruction& x = p.instructions[*it];
    if (x.communicator != p.instructions[b].communicator || !runs(x, w.taken)) continue;
    for (const uint32_t on : x.after)
      if (runs(p.instructions[on], w.taken) && ended_for(on)) return true;
  }
  return false;
}

// Checks that every instruction with a guard waits for the vote, whose outcome decides whether the instruction acts,
// and that no instruction without a guard waits for one with a guard, which may not run.
core::result<void> guards(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const uint32_t vote = w.rolls[rank].only(kind::vote);
  for (const auto& x : p.instructions) {
    if (!runs(x, w.taken)) continue;
    // an update that runs before the vote; speculation.cpp checks that it is undone in a skipped step
    const bool speculates = x.kind == kind::update && p.speculates(x.subject);
    const bool changes_states = (x.kind == kind::update && !speculates) || x.kind == kind::redo ||
                                x.kind == kind::publish || x.kind == kind::prepare;
    if (x.guard == guard::always) {
      if (changes_states) return broken(p, x.id, "runs even if the vote finds an overflow");
      if (x.lane == lane::io && vote != none && w.before(rank, vote, x.id))
        return broken(p, x.id, "moves states after the vote even if that finds an overflow");
      for (uint32_t on : x.after)
        if (p.instructions[on].guard != guard::always)
          return broken(p, x.id, "always runs but waits for " + name(p, on) + ", which a skipped step leaves out");
    } else if (vote == none || !starts_after(w, rank, vote, x.id)) {  // the vote's outcome is read when the instruction
                                                                      // starts
      return broken(p, x.id, "is guarded by a vote that it does not wait for");
    }
  }
  return {};
}

namespace {

core::result<world> look_at(rank_plans ranks, branch taken) {
  TROUPE_ASSIGN(auto order, happens_before::build(ranks, taken));
  world w{ranks, taken, std::move(order), {}, {}};
  for (const auto& p : ranks) {
    TROUPE_ASSIGN(auto r, call_roll(*p, taken));
    w.rolls.push_back(std::move(r));
  }
  const auto& table = ranks[0]->table();
  w.units_of.resize(table.parameters.size());
  for (uint32_t u = 0; u < table.units.size(); ++u)
    for (uint32_t q : table.units[u].parameters) w.units_of[q].push_back(u);
  return w;
}

core::result<void> does_nothing_else(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  for (const auto& x : p.instructions)
    if (x.lane != lane::writer) return broken(p, x.id, "has no place in a plan that only saves");
  if (p.peak_live_elements != 0) return broken(p, "it only saves, yet it states that it gathers parameters");
  return {};
}

core::result<void> prove(const world& w) {
  using rule = core::result<void> (*)(const world&, uint32_t);
  const bool only_saves = w.ranks[0]->options().mode == mode::save;
  for (uint32_t r = 0; r < w.ranks.size(); ++r)
    for (rule holds : only_saves ? std::vector<rule>{does_nothing_else, saves, slots}
                                 : std::vector<rule>{compute, residency, compression, near_copies, gradients, ties,
                                                     swaps, activations, speculation, saves, slots})
      TROUPE_TRY(holds(w, r));
  if (only_saves) return {};
  if (w.taken == branch::skipped) return {};
  for (uint32_t r = 0; r < w.ranks.size(); ++r)
    for (auto rule : {guards, updates, optimizer}) TROUPE_TRY(rule(w, r));
  return publishes(w);
}

}  // namespace
}  // namespace rules

namespace {

/// True if branch `taken` (an outcome of the vote) needs a proof of its own: in it the plan runs other instructions
/// than in a step that is neither skipped nor clipped, or restores undo copies.
bool is_one_of_its_own(const rank_plan& p, branch taken) {
  const bool undoes = taken == branch::skipped || p.options().updates.may_clip;
  if (undoes && std::ranges::any_of(p.undo_offset, [](uint64_t offset) { return offset != no_undo; })) return true;
  return std::ranges::any_of(p.instructions,
                             [=](const instruction& x) { return runs(x, taken) != runs(x, branch::not_skipped); });
}

/// Returns the name of a branch (an outcome of the vote) for error messages.
std::string when(branch taken) {
  return taken == branch::skipped ? "when the step is skipped" : "when the gradients are clipped";
}

core::result<void> well_formed(rank_plans plans) {
  if (plans.empty()) return core::fail(core::error_kind::bug, "a check needs at least one rank's plan, got none");
  for (const auto& p : plans)
    if (p->layout == nullptr || p->layout != plans[0]->layout)
      return rules::broken(*p, fmt::format("its options, sets and layouts are not those of rank {}", plans[0]->rank));
  TROUPE_TRY(rules::layout(*plans[0]->layout));
  TROUPE_TRY(rules::tied_layout(*plans[0]->layout));
  for (const auto& p : plans) TROUPE_TRY(rules::structure(*p));
  return rules::agreement(plans);
}

/// Checks that `plans` contains, for the rank of each plan, the plans of all pipeline ranks with which that rank
/// exchanges activations; otherwise a send would have no receive to be compared with.
core::result<void> whole_columns(rank_plans plans) {
  const auto& mesh = plans[0]->options().mesh;
  std::vector<bool> here(mesh.ranks(), false);
  for (const auto& p : plans) here[p->rank] = true;
  for (const auto& p : plans)
    for (uint32_t k = 0; k < mesh.degree(core::axis::pipeline); ++k)
      if (const uint32_t partner = mesh.at_stage(p->rank, k); !here[partner])
        return rules::broken(
            *p, fmt::format(
                    "it represents other ranks, but the plan of rank {}, with which it exchanges activations, does not",
                    partner));
  return {};
}

/// Checks the order of instructions and the use of memory of all plans, for each outcome of the vote in which some plan
/// behaves differently.
core::result<void> runs_well(rank_plans plans) {
  for (const branch taken : {branch::not_skipped, branch::clipped, branch::skipped}) {
    if (taken != branch::not_skipped &&
        std::ranges::none_of(plans, [=](const auto& p) { return is_one_of_its_own(*p, taken); }))
      continue;
    TROUPE_ASSIGN(auto world, rules::look_at(plans, taken));
    if (taken == branch::not_skipped)
      for (const auto& p : plans) TROUPE_TRY(rules::serial(*p));
    if (auto ok = rules::prove(world); !ok)
      return core::fail(taken == branch::not_skipped ? ok.error() : ok.error().in(when(taken)));
  }
  for (const auto& p : plans) TROUPE_TRY(rules::memory(*p));
  return {};
}

}  // namespace

core::result<void> check(rank_plans ranks) {
  TROUPE_TRY(well_formed(ranks));
  const job_layout& l = *ranks[0]->layout;
  if (ranks.size() != l.options.ranks())
    return rules::broken(*ranks[0], fmt::format("it is one of {}, got {}", l.options.ranks(), ranks.size()));
  const collective_pieces places(l);
  rules::saved_once saved(l);
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r]->rank != r) return rules::broken(*ranks[r], fmt::format("it is at position {}", r));
    TROUPE_TRY(rules::own(*ranks[r], places));
    TROUPE_TRY(saved.take(*ranks[r], places));
  }
  TROUPE_TRY(rules::pieces(l, places));
  TROUPE_TRY(saved.end());
  return runs_well(ranks);
}

core::result<void> check_classes(std::span<const rank_class> classes, rank_plans plans) {
  TROUPE_TRY(well_formed(plans));
  const auto& layout = plans[0]->layout;
  if (classes.size() != plans.size())
    return rules::broken(*layout, fmt::format("{} classes of ranks, but {} plans", classes.size(), plans.size()));
  const collective_pieces places(*layout);
  const auto part = [&](uint32_t rank) { return own_part(layout, rank); };
  TROUPE_TRY(rules::own_parts(classes, plans, places, part));
  TROUPE_TRY(whole_columns(plans));
  TROUPE_TRY(rules::pieces(*layout, places));
  return runs_well(plans);
}

}  // namespace troupe::plan
