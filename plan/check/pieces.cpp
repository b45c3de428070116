// Checks that collectives move every element exactly once, between its offset in its owner's memory and its offset in
// the slot or layout at the other end.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/math.hpp"
#include "plan/check/extents.hpp"
#include "plan/check/rules.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/layout/pieces.hpp"
#include "plan/stages.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan::rules {
namespace {

uint64_t numel(const job_layout& l, uint32_t q) { return l.table->parameters[q].numel(); }

// Returns the parameter that contains element `element` of a set; the set's placements do not overlap.
std::optional<placement> member_at(const std::vector<placement>& sorted, uint64_t element) {
  auto it = std::upper_bound(sorted.begin(), sorted.end(), element,
                             [](uint64_t e, const placement& x) { return e < x.offset; });
  if (it == sorted.begin()) return std::nullopt;
  return *std::prev(it);
}

enum class purpose : uint8_t { gather, near, reduce, collect, publish };

/// Returns the members, in order, of the communicator that runs a collective of the set: for a reduction all ranks that
/// add gradients; for other purposes the ranks of the first shard group, which together hold one copy of the states
/// (for the second copy of the parameters, the first group of ranks that shares one).
const std::vector<uint32_t>& members_of(const job_layout& l, purpose why, const parameter_set& set) {
  const uint32_t group = shard_communicator(l, set.pipeline, 0);
  const uint32_t c = why == purpose::reduce    ? reduce_communicator(l, set)
                     : why == purpose::near    ? near_communicator(l, l.communicators[group].members.front())
                     : why == purpose::collect ? matrix_communicator(l, set.pipeline, 0)
                                               : group;
  return l.communicators[c].members;
}

/// Returns the elements of parameter `q` that a rank sends or receives for purpose `why`.
slice share_of(const rank_slices& of_rank, purpose why, uint32_t q) {
  return why == purpose::near ? of_rank.near(q) : of_rank.of(q);
}

/// Computes where the rank that owns an element of a collective stores it. The parameter set describes the layout only
/// at the other end of the transfer, such as the slot of gathered parameters.
class other_side {
 public:
  other_side(const collective_pieces& all, purpose why, const parameter_set& set, const std::vector<uint32_t>& ranks)
      : all_(all), why_(why), set_(set) {
    const job_layout& l = all.slices(0).layout();
    if (why != purpose::gather && why != purpose::near) return;
    index_ = static_cast<uint32_t>(&set - l.gather_sets.data());
    if (why != purpose::gather || l.options.tiers.parameters != tier::nvme) return;
    for (const uint32_t rank : ranks) windows_.push_back(shard_runs(l, index_, rank, all.offsets(rank)));
  }

  /// Returns the offset, in elements, at which member `owner` of the collective stores element `first` of parameter
  /// `q`. The member must own the element.
  [[nodiscard]] uint64_t place(const rank_slices& of_rank, uint32_t owner, uint32_t q, uint64_t first) const {
    const job_layout& l = of_rank.layout();
    const rank_offsets& at = all_.offsets(of_rank.rank());
    switch (why_) {
      case purpose::gather: {
        const uint64_t inside = first - of_rank.of(q).first;
        return windows_.empty() ? at.shard[q] + inside : in_window(windows_[owner], at.state[q] + inside);
      }
      case purpose::near:
        return near_place(of_rank, at, index_, q) + first - of_rank.near(q).first;
      case purpose::reduce:
        return reduced_gradient(of_rank, at, q, first).offset;
      case purpose::publish:
        return l.full_offset[q] + first;
      case purpose::collect:
        return matrix_place(l, set_, q, of_rank.tensor()) + first;
    }
    return 0;
  }

 private:
  const collective_pieces& all_;
  purpose why_;
  const parameter_set& set_;
  uint32_t index_ = 0;                           // number of the gather set
  std::vector<std::vector<shard_run>> windows_;  // [owner]: runs of slices that are gathered from files
};

/// The elements that the owners in one shard group, whose ranks hold one copy of the states, send or receive: as ranges
/// and as a total.
struct coverage {
  std::vector<extent> all;
  uint64_t elements = 0;
};

/// Returns the parameters of a set with their offsets in the layout that the set describes, sorted by offset; for
/// matrices one entry for the share of each tensor rank.
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

// Checks that the pieces of a collective cover each element of its parameter set exactly once. If only owners receive
// reduced gradients, the pieces must do so for every shard group, because each group holds a copy of the states and the
// copies must stay equal.
core::result<void> moves(const job_layout& l, const collective_pieces& pieces, purpose why, const parameter_set& set,
                         const std::vector<moved_piece>& all) {
  const std::vector<placement> members = places_of(l, why, set);
  const auto& ranks = members_of(l, why, set);
  const bool by_replica = why == purpose::reduce && !l.options.reduce_to_all();
  const uint32_t tensor = why == purpose::reduce && set.over_tensor ? l.options.mesh.tensor_ranks() : 1;
  const other_side others(pieces, why, set, ranks);
  std::vector<coverage> covered(by_replica ? l.options.replicas() * tensor : 1);
  for (const auto& x : all) {
    const uint64_t here = why == purpose::reduce ? x.from : x.to, there = why == purpose::reduce ? x.to : x.from;
    const auto member = member_at(members, here);
    if (!member || x.owner >= ranks.size()) return broken(l, set.name + ": a piece has no owner or no parameter");
    const uint64_t first = here - member->offset;
    const rank_slices& owner = pieces.slices(ranks[x.owner]);
    const slice s = share_of(owner, why, member->parameter);
    if (x.count == 0 || first < s.first || first + x.count > s.first + s.count ||
        there != others.place(owner, x.owner, member->parameter, first))
      return broken(l, set.name + ": a piece of " + l.table->parameters[member->parameter].name +
                           " is not its owner's or goes to the wrong place");
    const uint32_t copy = owner.replica() * tensor + (tensor > 1 ? owner.tensor() : 0);
    auto& mine = covered[by_replica ? copy : 0];
    add_extent(mine.all, {here, here + x.count});
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

// Checks a reduction whose sums go to the owners in several shard groups, each of which holds a copy of the states: the
// pieces of one sum follow each other in the list, because the fabric computes the sum only once for such a sequence.
core::result<void> replicas_share_sums(const job_layout& l, const parameter_set& set,
                                       const std::vector<moved_piece>& all) {
  const uint32_t replicas =
      l.options.reduce_to_all() ? 1 : l.options.replicas() * (set.over_tensor ? l.options.mesh.tensor_ranks() : 1);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& first = all[i - i % replicas];
    if (all[i].from != first.from || all[i].count != first.count)
      return broken(l, set.name + ": owners of the same sum do not stand side by side");
  }
  return {};
}

// Checks that the rank that computed an orthogonal matrix sends all of it: the share of every tensor rank to the
// share's offset in the slot of the matrix set.
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

// Checks that every block of a parameter whose norm is needed is sent exactly once, in place, by the rank that owns the
// block.
core::result<void> measure_covers(const job_layout& l, const std::vector<moved_piece>& all) {
  std::vector<extent> covered;
  uint64_t total = 0, wanted = 0;
  for (const auto& x : all) {
    if (x.from != x.to || x.owner >= l.options.ranks()) return broken(l, "a piece of the measure moves elsewhere");
    add_extent(covered, {x.to, x.to + x.count});
    total += x.count;
  }
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q)
    if (l.need_of(q) == update_need::parameter_norms) wanted += 2 * blocks_of(l, q);
  if (total != wanted || !apart(covered, measured_elements(l)))
    return broken(l, "the measure's pieces do not cover each square sum exactly once");
  return {};
}

/// Determines which of the doubles that the vote exchanges (square sums, losses, input ranges) each rank computes.
class voters {
 public:
  explicit voters(const job_layout& l)
      : l_(l),
        losses_(l.num_blocks),
        ranges_(loss_offset(l, l.options.data(), 0)),
        last_stage_(pipeline_of_stage(l, num_stages(l) - 1)) {
    // Copies of tied parameters are last in the table and have the square sums of their originals, so they do not vote;
    // frozen parameters have no square sums.
    for (uint32_t q = 0; q < l.table->parameters.size() && !l.is_copy(q); ++q)
      if (l.trains(q)) {
        parameters_.push_back(q);
        begins_.push_back(l.block_offset[q]);
      }
  }

  /// True if the rank computes the doubles that piece `x` of the vote sends: square sums of its own slice, losses of
  /// its own micro-batches, or input ranges that it has measured.
  [[nodiscard]] bool knows(const rank_slices& of_rank, const moved_piece& x) const {
    if (x.to >= ranges_) return knows_range(of_rank, x);
    if (x.to >= losses_)
      return x.to == loss_offset(l_, of_rank.data(), 0) && x.count == l_.options.accumulation &&
             of_rank.pipeline() == last_stage_;
    const auto after = std::ranges::upper_bound(begins_, x.to);
    if (after == begins_.begin()) return false;
    const uint32_t q = parameters_[static_cast<size_t>(after - begins_.begin()) - 1];
    const uint64_t count = of_rank.of(q).count;
    return count > 0 && x.to == of_rank.first_block(q) && x.count == core::div_up(count, core::partition_grain);
  }

 private:
  /// True if piece `x` of the vote is an input range that the rank has measured on its own tokens, in a layer that it
  /// computes.
  [[nodiscard]] bool knows_range(const rank_slices& of_rank, const moved_piece& x) const {
    const uint64_t first = range_offset(l_, of_rank.rank(), 0), k = (x.to - first) / 2;
    if (x.count != 2 || x.to < first || (x.to - first) % 2 != 0 || k >= calibrated(l_)) return false;
    return computes(l_, of_rank.rank(), l_.table->layers[l_.options.compressed.calibrated[k]].unit);
  }

  const job_layout& l_;
  uint64_t losses_, ranges_;  // positions, among the doubles that the vote exchanges, of the first loss and of the
                              // first input range
  uint32_t last_stage_;
  std::vector<uint32_t> parameters_;  // indices of the parameters whose square sums are in the vote
  std::vector<uint64_t> begins_;      // [index in parameters_]: index of the parameter's first square sum
};

}  // namespace

core::result<void> reduction(const job_layout& l, const collective_pieces& places, uint32_t bucket,
                             const std::vector<moved_piece>& moved) {
  TROUPE_TRY(moves(l, places, purpose::reduce, l.buckets[bucket], moved));
  return replicas_share_sums(l, l.buckets[bucket], moved);
}

core::result<void> vote(const job_layout& l, const std::vector<moved_piece>& moved) {
  const auto& ranks = l.communicators[world_communicator(l)].members;
  const voters all(l);
  std::vector<rank_slices> slices;
  slices.reserve(ranks.size());
  for (const uint32_t rank : ranks) slices.emplace_back(l, rank);
  std::vector<extent> covered;
  uint64_t total = 0;
  for (const auto& x : moved) {
    if (x.from != x.to || x.owner >= ranks.size()) return broken(l, "a piece of the vote moves elsewhere");
    if (!all.knows(slices[x.owner], x))
      return broken(l, fmt::format("rank {} votes with square sums, losses or ranges of others", ranks[x.owner]));
    add_extent(covered, {x.to, x.to + x.count});
    total += x.count;
  }
  if (total != vote_elements(l) || !apart(covered, vote_elements(l)))
    return broken(l, "the vote's pieces do not cover each square sum, loss and range exactly once");
  return {};
}

core::result<void> pieces(const job_layout& l, const collective_pieces& all) {
  const auto each = [&](purpose why, const std::vector<parameter_set>& sets, auto list_of) -> core::result<void> {
    for (uint32_t i = 0; i < sets.size(); ++i) TROUPE_TRY(moves(l, all, why, sets[i], (all.*list_of)(i)));
    return {};
  };
  if (l.gathers()) TROUPE_TRY(each(purpose::gather, l.gather_sets, &collective_pieces::gather));
  for (uint32_t u = 0; u < l.table->units.size() && l.options.has_near_copies(); ++u)
    TROUPE_TRY(moves(l, all, purpose::near, l.gather_sets[u], all.gather_near(u)));
  for (uint32_t b = 0; b < l.buckets.size(); ++b) TROUPE_TRY(reduction(l, all, b, all.reduce(b)));
  TROUPE_TRY(tied_pieces(l, all));
  TROUPE_TRY(exchanges(l, all));
  TROUPE_TRY(agreements(l, all));
  TROUPE_TRY(each(purpose::collect, l.matrix_sets, &collective_pieces::collect));
  for (uint32_t k = 0; k < l.matrix_sets.size(); ++k) TROUPE_TRY(spreads(l, l.matrix_sets[k], all.spread(k)));
  if (l.options.mode == mode::train) TROUPE_TRY(measure_covers(l, all.measure()));
  TROUPE_TRY(each(purpose::publish, l.publish_sets, &collective_pieces::publish));
  if (l.options.mode != mode::train && l.options.mode != mode::evaluate) return {};
  return vote(l, all.vote());
}

}  // namespace troupe::plan::rules
