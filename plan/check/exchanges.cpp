// Checks exchanges between the ranks of a tensor or sequence group: the parts of a slot that the ranks send, receive or
// add cover the slot exactly once. The order of instructions around exchanges is checked in compute.cpp.

#include "plan/check/extents.hpp"

#include <fmt/format.h>
#include "plan/check/rules.hpp"
#include "plan/group_exchange.hpp"

namespace troupe::plan::rules {
namespace {

/// Returns the part of exchange `what` that group member `owner` sends to the other members or, if the exchange adds,
/// sums up. Offsets and sizes are in bytes, or in elements if the exchange adds.
moved_piece part_of(const job_layout& l, const group_exchange& what, uint32_t owner) {
  const uint64_t unit = core::adds(what.op) ? core::size_of(l.options.types.parameter) : 1;
  const uint64_t each = what.bytes / unit, place = owner * each, given = what.given_at() / unit;
  switch (what.op) {
    // A swap is an all-to-all: a rank sends one part to each rank, in rank order, and stores the received parts in the
    // order of their senders.
    case core::exchange_op::swap:
      return {owner, given, place, each};
    case core::exchange_op::scatter:
      return {owner, given + place, 0, each};
    default:
      return {owner, place, place, each};
  }
}

}  // namespace

core::result<void> exchange(const job_layout& l, const group_exchange& what, const std::vector<moved_piece>& moved,
                            std::optional<uint32_t> piece) {
  const uint32_t ranks = what.ranks;
  const auto wrong = [&](const std::string& how) {
    return broken(l, fmt::format("an exchange by {} over {} ranks {}", core::name_of(what.op), ranks, how));
  };
  const uint64_t element = core::size_of(l.options.types.parameter);
  if (core::adds(what.op) && what.bytes % element != 0) return wrong("adds a part of an element");
  if (piece && (what.op != core::exchange_op::sum || what.bytes % (what.rows * element) != 0))
    return wrong("moves pieces of what has no rows of whole elements");
  if (what.op == core::exchange_op::sum) {  // a sum is in place, and any rank may add any rows
    const slice rows = piece ? what.rows_of(*piece) : slice{0, 1};
    const uint64_t width = what.bytes / element / (piece ? what.rows : 1), begin = rows.first * width;
    std::vector<extent> added;
    uint64_t elements = 0;
    for (const auto& x : moved) {
      if (x.owner >= ranks || x.from != x.to || x.from < begin) return wrong("adds what is stored elsewhere");
      added.push_back({x.from, x.from + x.count});
      elements += x.count;
    }
    const uint64_t wanted = rows.count * width;
    return elements == wanted && apart(added, begin + wanted) ? core::result<void>{}
                                                              : wrong("does not add each element exactly once");
  }
  if (moved.size() != ranks) return wrong(fmt::format("moves {} parts", moved.size()));
  for (uint32_t t = 0; t < ranks; ++t)
    if (moved[t] != part_of(l, what, t)) return wrong(fmt::format("takes another part for that of rank {}", t));
  return {};
}

core::result<void> exchanges(const job_layout& l, const collective_pieces& all) {
  for (uint32_t u = 0; u < l.table->units.size(); ++u)
    for (uint32_t s = 0; s < l.table->units[u].segments.size(); ++s)
      for (const use way : {use::forward, use::backward}) {
        const group_exchange& what = exchange_of(l, u, s, way);
        if (what.ranks == 1) continue;
        instruction x;
        x.kind = kind::exchange;
        x.subject = u;
        x.segment = s;
        x.use = way;
        const uint32_t pieces = way == use::forward ? what.pieces : 1;
        for (x.piece = 0; x.piece < pieces; ++x.piece) {
          const auto piece = pieces > 1 ? std::optional(x.piece) : std::nullopt;
          if (auto ok = exchange(l, what, all.exchange(x), piece); !ok)
            return core::fail(ok.error().in(l.table->units[u].name));
        }
        x.piece = 0;
        if (pieces == 1) continue;
        x.repeats = repetition::recompute;  // a recompute exchanges all rows at once
        if (auto ok = exchange(l, what, all.exchange(x)); !ok) return core::fail(ok.error().in(l.table->units[u].name));
      }
  return {};
}

}  // namespace troupe::plan::rules
