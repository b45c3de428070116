// Collectives move every element once, from its owner's place to its destination.
#include <algorithm>
#include <optional>

#include "core/math.hpp"
#include "plan/check/extents.hpp"
#include "plan/check/rules.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/layout/pieces.hpp"

namespace troupe::plan::rules {
namespace {

uint64_t numel(const job_layout& l, uint32_t q) { return l.table->parameters[q].numel(); }

// Finds the parameter at an element of a set; its placements are apart.
std::optional<placement> member_at(const std::vector<placement>& sorted, uint64_t element) {
  auto it = std::upper_bound(sorted.begin(), sorted.end(), element,
                             [](uint64_t e, const placement& x) { return e < x.offset; });
  if (it == sorted.begin()) return std::nullopt;
  return *std::prev(it);
}

enum class purpose : uint8_t { gather, near, reduce, collect, publish };

/// Those who take part in it, in the order of its communicator: one replica's, of a reduction all.
const std::vector<uint32_t>& members_of(const job_layout& l, purpose why, const parameter_set& set) {
  const uint32_t group = shard_communicator(l, set.pipeline, 0);
  const uint32_t c = why == purpose::reduce    ? reduce_communicator(l, set)
                     : why == purpose::near    ? near_communicator(l, l.communicators[group].members.front())
                     : why == purpose::collect ? matrix_communicator(l, set.pipeline, 0)
                                               : group;
  return l.communicators[c].members;
}

/// The elements of `q` that `rank` gives or receives.
slice share_of(const job_layout& l, purpose why, uint32_t q, uint32_t rank) {
  return why == purpose::near ? l.near_slice(q, rank) : l.slice_of(q, rank);
}

/// Where an element lies on the other side of the collective, given its place on the side that the set describes.
uint64_t other_side(const job_layout& l, const collective_pieces& all, purpose why, const parameter_set& set,
                    uint32_t q, uint32_t owner, uint64_t first) {
  const uint32_t rank = members_of(l, why, set)[owner];
  const rank_offsets& at = all.offsets(rank);
  switch (why) {
    case purpose::gather: {
      const uint64_t inside = first - l.slice_of(q, rank).first;
      if (l.options.tiers.parameters != tier::nvme) return at.shard[q] + inside;
      const auto index = static_cast<uint32_t>(&set - l.gather_sets.data());
      return in_window(shard_runs(l, index, rank, at), at.state[q] + inside);
    }
    case purpose::near: {
      const auto index = static_cast<uint32_t>(&set - l.gather_sets.data());
      return near_place(l, rank, at, index, q) + first - l.near_slice(q, rank).first;
    }
    case purpose::reduce:
      return reduced_gradient(l, rank, at, q, first).offset;
    case purpose::publish:
      return l.full_offset[q] + first;
    case purpose::collect:
      return matrix_place(l, set, q, l.tensor_at(rank)) + first;
  }
  return 0;
}

/// What the owners of one replica receive or give.
struct coverage {
  std::vector<extent> all;
  uint64_t elements = 0;
};

/// What the set's side of the collective has, where it lies: of matrices every share.
std::vector<placement> places_of(const job_layout& l, purpose why, const parameter_set& set) {
  std::vector<placement> out;
  for (const auto& x : set.parameters) {
    if (why != purpose::collect)
      out.push_back({x.parameter, why == purpose::publish ? l.full_offset[x.parameter] : x.offset});
    for (uint32_t t = 0; why == purpose::collect && t < shares_of(l, x.parameter); ++t)
      out.push_back({x.parameter, matrix_place(l, set, x.parameter, t)});
  }
  std::ranges::sort(out, {}, &placement::offset);
  return out;
}

// Each replica has every element once: a sum that some replica's owner did not receive would leave its states behind.
// Sums that all receive are shared out among the replicas.
core::result<void> moves(const job_layout& l, const collective_pieces& pieces, purpose why, const parameter_set& set,
                         const std::vector<moved_piece>& all) {
  const std::vector<placement> members = places_of(l, why, set);
  const auto& ranks = members_of(l, why, set);
  const bool by_replica = why == purpose::reduce && !l.options.reduce_to_all();
  const uint32_t tensor = why == purpose::reduce && set.over_tensor ? l.tensor_ranks() : 1;
  std::vector<coverage> covered(by_replica ? l.options.replicas() * tensor : 1);
  for (const auto& x : all) {
    const uint64_t here = why == purpose::reduce ? x.from : x.to, there = why == purpose::reduce ? x.to : x.from;
    const auto member = member_at(members, here);
    if (!member || x.owner >= ranks.size()) return broken(l, set.name + ": a piece has no owner or no parameter");
    const uint64_t first = here - member->offset;
    const slice s = share_of(l, why, member->parameter, ranks[x.owner]);
    if (x.count == 0 || first < s.first || first + x.count > s.first + s.count ||
        there != other_side(l, pieces, why, set, member->parameter, x.owner, first))
      return broken(l, set.name + ": a piece of " + l.table->parameters[member->parameter].name +
                           " is not its owner's or goes to the wrong place");
    const uint32_t rank = ranks[x.owner], copy = l.replica_at(rank) * tensor + (tensor > 1 ? l.tensor_at(rank) : 0);
    auto& mine = covered[by_replica ? copy : 0];
    mine.all.push_back({here, here + x.count});
    mine.elements += x.count;
  }
  const bool matrices = why == purpose::collect;
  const uint64_t wanted = matrices ? matrix_elements(l, set) : set.numel;
  const uint64_t bound = matrices                  ? matrix_slot_elements(l, set)
                         : why == purpose::publish ? l.full_elements[set.pipeline]
                                                   : set.elements;
  for (auto& one : covered)
    if (one.elements != wanted || !apart(one.all, bound))
      return broken(l, set.name + ": its pieces do not cover each parameter exactly once" +
                           (covered.size() > 1 ? " for each replica" : ""));
  return {};
}

// Owners of the same sum stand side by side: so it is made once, and in place where buckets stay.
core::result<void> replicas_share_sums(const job_layout& l, const parameter_set& set,
                                       const std::vector<moved_piece>& all) {
  const uint32_t replicas =
      l.options.reduce_to_all() ? 1 : l.options.replicas() * (set.over_tensor ? l.tensor_ranks() : 1);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& first = all[i - i % replicas];
    if (all[i].from != first.from || all[i].count != first.count)
      return broken(l, set.name + ": owners of the same sum do not stand side by side");
  }
  return {};
}

// Each matrix goes whole from the rank that made it orthogonal: every share to its place.
core::result<void> spreads(const job_layout& l, const parameter_set& set, const std::vector<moved_piece>& all) {
  std::vector<moved_piece> wanted;
  for (const auto& x : set.parameters)
    for (uint32_t t = 0; t < shares_of(l, x.parameter); ++t) {
      const uint64_t at = x.offset + t * set.elements;
      wanted.push_back({l.matrix_owner[x.parameter], at, at, numel(l, x.parameter)});
    }
  if (all != wanted) return broken(l, set.name + ": an orthogonal matrix does not come whole from its owner");
  return {};
}

// In place, and every block of a parameter whose norm is needed exactly once, from the rank that owns the block.
core::result<void> measure_covers(const job_layout& l, const std::vector<moved_piece>& all) {
  std::vector<extent> covered;
  uint64_t total = 0, wanted = 0;
  for (const auto& x : all) {
    if (x.from != x.to || x.owner >= l.options.ranks()) return broken(l, "a piece of the measure moves elsewhere");
    covered.push_back({x.to, x.to + x.count});
    total += x.count;
  }
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q)
    if (l.need_of(q) == update_need::parameter_norms) wanted += 2 * l.blocks_of(q);
  if (total != wanted || !apart(covered, l.measured_elements()))
    return broken(l, "the measure's pieces do not cover each square sum exactly once");
  return {};
}

/// Whether `rank` knows the range that it puts at `x.to`: of its own tokens, in a layer that it computes.
bool speaks_for_range(const job_layout& l, uint32_t rank, const moved_piece& x) {
  const uint64_t first = l.range_offset(rank, 0), k = (x.to - first) / 2;
  if (x.count != 2 || x.to < first || (x.to - first) % 2 != 0 || k >= l.calibrated()) return false;
  return l.computes(rank, l.table->layers[l.options.compressed.calibrated[k]].unit);
}

/// Whether `rank` knows what it puts at `x.to`: square sums of its own slice, its own losses, or ranges.
bool speaks_for(const job_layout& l, uint32_t rank, const moved_piece& x) {
  if (x.to >= l.loss_offset(l.options.data(), 0)) return speaks_for_range(l, rank, x);
  if (x.to >= l.num_blocks)
    return x.to == l.loss_offset(l.data_at(rank), 0) && x.count == l.options.accumulation &&
           l.pipeline_at(rank) == l.pipeline_of_stage(l.num_stages() - 1);
  // Copies, which come last, have the blocks of their originals and do not vote.
  const auto copies =
      std::ranges::partition_point(l.table->parameters, [](const core::parameter_info& p) { return !p.is_copy(); });
  const auto begin = l.block_offset.begin(), end = begin + (copies - l.table->parameters.begin());
  auto q = static_cast<uint32_t>(std::upper_bound(begin, end, x.to) - begin) - 1;
  while (q > 0 && !l.trains(q)) --q;  // frozen parameters have no blocks
  const slice own = l.slice_of(q, rank);
  const uint64_t first = l.first_block(q, rank) + own.first / core::partition_grain;
  return own.count > 0 && x.to == first && x.count == core::div_up(own.count, core::partition_grain);
}

}  // namespace

core::result<void> reduction(const job_layout& l, const collective_pieces& places, uint32_t bucket,
                             const std::vector<moved_piece>& moved) {
  if (auto ok = moves(l, places, purpose::reduce, l.buckets[bucket], moved); !ok) return ok;
  return replicas_share_sums(l, l.buckets[bucket], moved);
}

core::result<void> vote(const job_layout& l, const std::vector<moved_piece>& moved) {
  const auto& ranks = l.communicators[world_communicator(l)].members;
  std::vector<extent> covered;
  uint64_t total = 0;
  for (const auto& x : moved) {
    if (x.from != x.to || x.owner >= ranks.size()) return broken(l, "a piece of the vote moves elsewhere");
    if (!speaks_for(l, ranks[x.owner], x))
      return broken(l,
                    "rank " + std::to_string(ranks[x.owner]) + " votes with square sums, losses or ranges of others");
    covered.push_back({x.to, x.to + x.count});
    total += x.count;
  }
  if (total != l.vote_elements() || !apart(covered, l.vote_elements()))
    return broken(l, "the vote's pieces do not cover each square sum, loss and range exactly once");
  return {};
}

core::result<void> pieces(const job_layout& l) {
  const collective_pieces all(l);
  const auto each = [&](purpose why, const std::vector<parameter_set>& sets, auto list_of) -> core::result<void> {
    for (uint32_t i = 0; i < sets.size(); ++i)
      if (auto ok = moves(l, all, why, sets[i], (all.*list_of)(i)); !ok) return ok;
    return {};
  };
  if (l.gathers())
    if (auto ok = each(purpose::gather, l.gather_sets, &collective_pieces::gather); !ok) return ok;
  for (uint32_t u = 0; u < l.table->units.size() && l.options.has_near_copies(); ++u)
    if (auto ok = moves(l, all, purpose::near, l.gather_sets[u], all.gather_near(u)); !ok) return ok;
  for (uint32_t b = 0; b < l.buckets.size(); ++b)
    if (auto ok = reduction(l, all, b, all.reduce(b)); !ok) return ok;
  if (auto ok = tied_pieces(l, all); !ok) return ok;
  if (auto ok = exchanges(l, all); !ok) return ok;
  if (auto ok = agreements(l, all); !ok) return ok;
  if (auto ok = each(purpose::collect, l.matrix_sets, &collective_pieces::collect); !ok) return ok;
  for (uint32_t k = 0; k < l.matrix_sets.size(); ++k)
    if (auto ok = spreads(l, l.matrix_sets[k], all.spread(k)); !ok) return ok;
  if (l.options.mode == mode::train)
    if (auto ok = measure_covers(l, all.measure()); !ok) return ok;
  if (auto ok = each(purpose::publish, l.publish_sets, &collective_pieces::publish); !ok) return ok;
  if (l.options.mode != mode::train && l.options.mode != mode::evaluate) return {};
  return vote(l, all.vote());
}

}  // namespace troupe::plan::rules
