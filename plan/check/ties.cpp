// Checks tied parameters: each use's gradient is reduced, sent to all ranks of the same pipeline that hold another use,
// and added there once, in the order of units, before anything reads the sum. The vote counts the sum once.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plan/check/extents.hpp"
#include "plan/check/rules.hpp"
#include "plan/layout/ties.hpp"

namespace troupe::plan::rules {
namespace {

const std::string& name_of(const job_layout& l, uint32_t tie) {
  return l.table->parameters[l.ties[tie].parameters.front()].name;
}

/// Returns the first unit that reads parameter `q`.
uint32_t reader_of(const job_layout& l, uint32_t q) {
  for (uint32_t u = 0; u < l.table->units.size(); ++u)
    if (std::ranges::find(l.table->units[u].parameters, q) != l.table->units[u].parameters.end()) return u;
  return none;
}

// Checks that a tie (the uses of one tied parameter) has the original and all its copies, in the order of units, each
// in a bucket of its own.
core::result<void> uses_are_all(const job_layout& l, uint32_t tie) {
  const auto& uses = l.ties[tie].parameters;
  if (uses.size() < 2 || uses.front() >= l.tie_of.size() || l.is_copy(uses.front()))
    return broken(l, "a tie has no original or no copy");
  const auto belongs = [&](uint32_t q) { return l.trains(q) && l.table->original(q) == uses.front(); };
  uint32_t wanted = 0;
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q) {
    if (!belongs(q)) continue;
    ++wanted;
    if (l.tie_of[q] != tie || std::ranges::count(uses, q) != 1)
      return broken(l, l.table->parameters[q].name + " is not once among the uses of " + name_of(l, tie));
    if (l.options.mode == mode::train && l.buckets[l.bucket_of[q]].parameters.size() != 1)
      return broken(l, l.table->parameters[q].name + " is tied but shares its bucket");
  }
  if (wanted != uses.size()) return broken(l, name_of(l, tie) + " is tied to a parameter that is not a copy of it");
  for (size_t i = 1; i < uses.size(); ++i)
    if (reader_of(l, uses[i - 1]) >= reader_of(l, uses[i]))
      return broken(l, "the uses of " + name_of(l, tie) + " are not in the order of units");
  return {};
}

// Checks that the gradient of each use of a tied parameter is sent exactly once to each pipeline rank that holds
// another use but not this one.
core::result<void> uses_are_told(const job_layout& l, uint32_t tie) {
  std::set<uint32_t> holders;
  for (const uint32_t q : l.ties[tie].parameters) holders.insert(l.pipeline_of[q]);
  for (const uint32_t q : l.ties[tie].parameters)
    for (const uint32_t at : holders) {
      uint32_t told = 0;
      for (const auto& e : l.exchanges)
        for (uint32_t side = 0; side < 2; ++side)
          told += e.tie == tie && e.gives[side] == q && e.pipeline[1 - side] == at ? 1 : 0;
      if (told != (at == l.pipeline_of[q] ? 0 : 1))
        return broken(l, fmt::format("the gradient of {} goes {} times to pipeline rank {}",
                                     l.table->parameters[q].name, told, at));
    }
  return {};
}

core::result<void> exchange_is_sound(const job_layout& l, const tie_exchange& e) {
  if (e.tie >= l.ties.size() || e.pipeline[0] >= e.pipeline[1] || e.pipeline[1] >= l.full_elements.size())
    return broken(l, "an exchange of tied gradients has no tie or no two sides");
  for (uint32_t side = 0; side < 2; ++side) {
    const uint32_t q = e.gives[side];
    if (q != none && (q >= l.tie_of.size() || l.tie_of[q] != e.tie || l.pipeline_of[q] != e.pipeline[side]))
      return broken(l, "an exchange of " + name_of(l, e.tie) + " gives what its side does not hold");
  }
  return {};
}

// Checks the exchanges of tie `tie` on a rank: each comes after the reductions of the gradients that it sends, and
// before the sum over all uses.
core::result<void> others_have_come(const world& w, uint32_t rank, uint32_t tie) {
  const rank_plan& p = *w.ranks[rank];
  const job_layout& l = *p.layout;
  const roll& r = w.rolls[rank];
  const uint32_t sum = r[kind::tied_sum][tie], here = l.options.mesh.pipeline_at(p.rank),
                 slot = p.instructions[sum].slots.moved;
  uint32_t first = none;
  for (uint32_t e = 0; e < l.exchanges.size(); ++e) {
    const uint32_t side = side_of(l.exchanges[e], here);
    if (l.exchanges[e].tie != tie || side == none) continue;
    const uint32_t x = r[kind::tie][e], given = l.exchanges[e].gives[side];
    if (x == none)
      return broken(p, sum,
                    fmt::format("adds gradients that no exchange with pipeline rank {} brings",
                                l.exchanges[e].pipeline[1 - side]));
    if (first == none) first = x;
    if (slot == none || p.instructions[x].slots.moved != slot)
      return broken(p, x, "does not fill the slot that " + name(p, sum) + " reads");
    if (given != none) TROUPE_TRY(in_order(w, rank, r.last_reduce(l, l.bucket_of[given]), x, "whose result it gives"));
    TROUPE_TRY(in_order(w, rank, x, sum, "which brings what it adds"));
  }
  const uint64_t bytes = received_elements(l, tie, here) * core::size_of(p.options().types.accumulation);
  if (first == none) return slot == none ? core::result<void>{} : broken(p, sum, "names a slot that it does not need");
  const buffer& b = p.buffers[slot];
  if (b.pool != pool::transfers || b.subject != tie || b.bytes != bytes || b.first != first || b.last != sum)
    return broken(p, sum, "reads a slot that is not its own: pool, tie, size or life differ");
  return {};
}

// Checks that every reader of a tied parameter's reduced gradient waits for the sum over its uses.
core::result<void> readers_wait(const world& w, uint32_t rank, uint32_t tie) {
  const rank_plan& p = *w.ranks[rank];
  const job_layout& l = *p.layout;
  const roll& r = w.rolls[rank];
  const uint32_t sum = r[kind::tied_sum][tie], original = l.ties[tie].parameters.front();
  if (l.holds(p.rank, original) && r[kind::norm][l.bucket_of[original]] != none)
    TROUPE_TRY(in_order(w, rank, sum, r[kind::norm][l.bucket_of[original]], "whose result it counts"));
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g) {
    const auto tied = [&](const owned_piece& x) { return l.tie_of[x.parameter] == tie; };
    if (std::ranges::none_of(p.sub_groups[g].pieces, tied)) continue;
    for (const uint32_t id : {r[kind::prepare][g], r[kind::update][g]})
      if (id != none) TROUPE_TRY(in_order(w, rank, sum, id, "whose result it reads"));
  }
  return {};
}

}  // namespace

core::result<void> tied_layout(const job_layout& l) {
  if (l.tie_of.size() != l.table->parameters.size()) return broken(l, "it does not say which parameters are tied");
  for (uint32_t q = 0; q < l.tie_of.size(); ++q) {
    const bool tied = l.tie_of[q] != none;
    if (tied ? l.tie_of[q] >= l.ties.size() : l.is_copy(q) && l.trains(q))
      return broken(l, l.table->parameters[q].name + " is tied to nothing");
  }
  for (uint32_t t = 0; t < l.ties.size(); ++t) TROUPE_TRY(uses_are_all(l, t));
  for (const auto& e : l.exchanges) TROUPE_TRY(exchange_is_sound(l, e));
  for (uint32_t t = 0; t < l.ties.size(); ++t) TROUPE_TRY(uses_are_told(l, t));
  return {};
}

core::result<void> tied_pieces(const job_layout& l, const collective_pieces& all) {
  const uint32_t columns = l.options.ranks() / l.options.mesh.degree(core::axis::pipeline);
  for (uint32_t column = 0; column < columns; ++column)
    for (uint32_t t = 0; t < l.ties.size(); ++t) {
      std::vector<std::vector<extent>> filled(l.full_elements.size());  // [pipeline coordinate]: received runs of
                                                                        // elements
      for (uint32_t e = 0; e < l.exchanges.size(); ++e) {
        const tie_exchange& x = l.exchanges[e];
        if (x.tie != t) continue;
        uint64_t given[2] = {};
        for (const auto& piece : all.tie(e, column)) {
          if (piece.owner > 1 || piece.from != 0)
            return broken(l, "tied gradients of " + name_of(l, t) + " have no giver");
          given[piece.owner] += piece.count;
          filled[x.pipeline[1 - piece.owner]].push_back({piece.to, piece.to + piece.count});
        }
        for (uint32_t side = 0; side < 2; ++side)
          if (given[side] !=
              (x.gives[side] == none ? 0 : all.slices(x.pipeline[side] * columns + column).state(x.gives[side]).count))
            return broken(l, "an exchange of " + name_of(l, t) + " does not move all that its side holds");
      }
      for (uint32_t at = 0; at < filled.size(); ++at)
        if (!apart(filled[at], received_elements(l, t, at)))
          return broken(l, "received gradients of " + name_of(l, t) + " overlap in their slot or exceed its end");
    }
  return {};
}

core::result<void> ties(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const job_layout& l = *p.layout;
  const roll& r = w.rolls[rank];
  if (p.options().mode != mode::train) return {};
  for (uint32_t t = 0; t < l.ties.size(); ++t) {
    const uint32_t sum = r[kind::tied_sum][t];
    bool here = false;
    for (const uint32_t q : l.ties[t].parameters) {
      if (!l.holds(p.rank, q)) continue;
      here = true;
      if (sum == none) return broken(p, "nothing adds the gradients of the uses of " + name_of(l, t));
      const uint32_t reduced = r.last_reduce(l, l.bucket_of[q]);
      TROUPE_TRY(in_order(w, rank, reduced, sum, "whose result it adds"));
    }
    if (!here) continue;
    TROUPE_TRY(others_have_come(w, rank, t));
    TROUPE_TRY(readers_wait(w, rank, t));
  }
  return {};
}

}  // namespace troupe::plan::rules
