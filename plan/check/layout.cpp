// Every element of every parameter has one place in each layout and one owner, and collectives move it there.
#include <algorithm>
#include <optional>

#include "core/math.hpp"
#include "plan/check/rules.hpp"
#include "plan/layout/layout.hpp"

namespace troupe::plan::rules {
namespace {

/// Elements, half open.
struct extent {
  uint64_t first = 0, end = 0;
};

/// Sorts; true where no two overlap and none ends beyond `elements`.
bool apart(std::vector<extent>& all, uint64_t elements) {
  std::erase_if(all, [](const extent& x) { return x.first == x.end; });
  std::sort(all.begin(), all.end(), [](const extent& a, const extent& b) { return a.first < b.first; });
  uint64_t end = 0;
  for (const auto& x : all) {
    if (x.first < end || x.end > elements) return false;
    end = x.end;
  }
  return true;
}

constexpr uint64_t alignment = core::parameter_alignment_bytes / 2;  // of elements of at least 2 bytes

uint64_t numel(const step_plan& p, uint32_t q) { return p.table->parameters[q].numel(); }

core::result<void> cuts(const step_plan& p) {
  for (uint32_t q = 0; q < p.partition.slices.size(); ++q) {
    uint64_t end = 0;
    for (const slice& s : p.partition.slices[q]) {
      if (s.first != end || (s.count > 0 && s.first % core::partition_grain != 0))
        return broken(p, p.table->parameters[q].name + " is not cut into neighbouring runs of whole blocks");
      end += s.count;
    }
    if (end != numel(p, q)) return broken(p, p.table->parameters[q].name + " has elements without owner");
  }
  return {};
}

core::result<void> offsets(const step_plan& p) {
  const auto lies_well = [&](const std::vector<uint64_t>& at, uint64_t elements, auto count) {
    std::vector<extent> all;
    for (uint32_t q = 0; q < at.size(); ++q) {
      if (at[q] % alignment != 0 && count(q) > 0) return false;
      all.push_back({at[q], at[q] + count(q)});
    }
    return apart(all, elements);
  };
  if (!lies_well(p.full_offset, p.full_elements, [&](uint32_t q) { return numel(p, q); }))
    return broken(p, "parameters overlap in the full layout or start off their 64-byte boundary");
  for (uint32_t r = 0; r < p.options.ranks; ++r)
    if (!lies_well(p.shard_offset[r], p.shard_elements[r], [&](uint32_t q) { return p.partition.of(q, r).count; }))
      return broken(p, "slices of rank " + std::to_string(r) + " overlap or start off their 64-byte boundary");
  for (uint32_t r = 0; r < p.options.ranks; ++r)
    if (!lies_well(p.state_offset[r], p.state_elements[r], [&](uint32_t q) { return p.state_slice(q, r).count; }))
      return broken(p, "states of rank " + std::to_string(r) + " overlap or start off their 64-byte boundary");
  for (uint32_t k = 0; k < max_moments; ++k)
    if (!lies_well(p.moment_offset[k], p.moment_elements[k],
                   [&](uint32_t q) { return k < p.options.update_of(q).moments ? p.state_slice(q, p.rank).count : 0; }))
      return broken(p, "moments overlap or start off their 64-byte boundary");
  uint64_t blocks = 0;
  for (uint32_t q = 0; q < p.block_offset.size(); ++q) {
    if (p.block_offset[q] != blocks)
      return broken(p, p.table->parameters[q].name + " has its square sums in the wrong place");
    if (p.trains(q)) blocks += core::div_up(numel(p, q), core::partition_grain);
  }
  if (p.num_blocks != (p.options.mode == mode::train ? blocks : 0))
    return broken(p, "its vote has the wrong number of blocks");
  return {};
}

core::result<void> set_is_laid_out(const step_plan& p, const parameter_set& s) {
  std::vector<extent> all;
  uint64_t total = 0;
  for (const auto& x : s.parameters) {
    if (x.offset % alignment != 0) return broken(p, s.name + " has a parameter off its 64-byte boundary");
    all.push_back({x.offset, x.offset + numel(p, x.parameter)});
    total += numel(p, x.parameter);
  }
  if (!apart(all, s.elements)) return broken(p, "parameters overlap in " + s.name + " or lie beyond its end");
  if (total != s.numel) return broken(p, s.name + " counts its elements wrongly");
  return {};
}

/// How often `sets` hold each parameter.
std::vector<uint32_t> membership(const step_plan& p, const std::vector<parameter_set>& sets) {
  std::vector<uint32_t> out(p.table->parameters.size(), 0);
  for (const auto& s : sets)
    for (const auto& x : s.parameters) ++out[x.parameter];
  return out;
}

core::result<void> sets(const step_plan& p) {
  for (const auto* kind : {&p.gather_sets, &p.buckets, &p.matrix_sets, &p.publish_sets})
    for (const auto& s : *kind)
      if (auto ok = set_is_laid_out(p, s); !ok) return ok;
  const auto members = [](const parameter_set& s) {
    std::vector<uint32_t> out;
    for (const auto& x : s.parameters) out.push_back(x.parameter);
    std::sort(out.begin(), out.end());
    return out;
  };
  for (uint32_t u = 0; u <= p.table->units.size(); ++u) {
    std::vector<uint32_t> wanted;
    if (u < p.table->units.size()) {
      for (uint32_t q : p.table->units[u].parameters)
        if (!p.persistent[q]) wanted.push_back(q);
      std::sort(wanted.begin(), wanted.end());
    } else {
      for (uint32_t q = 0; q < p.persistent.size(); ++q)
        if (p.persistent[q]) wanted.push_back(q);
    }
    if (members(p.gather_sets[u]) != wanted)
      return broken(p, "gather set " + p.gather_sets[u].name + " is not what its unit reads");
  }
  if (p.options.mode != mode::train) return {};
  const auto in_buckets = membership(p, p.buckets), published = membership(p, p.publish_sets);
  const auto in_matrices = membership(p, p.matrix_sets);
  const bool publishes = p.options.stage == 1 || p.options.stage == 2;
  for (uint32_t q = 0; q < in_buckets.size(); ++q) {
    const bool whole = p.need_of(q) == update_need::whole_matrix;
    if (in_matrices[q] != (whole ? 1 : 0) || (whole ? p.matrix_owner[q] >= p.options.ranks : p.matrix_owner[q] != none))
      return broken(p, p.table->parameters[q].name + " is not in exactly one matrix set with an owner if any");
    const uint32_t wanted = publishes && p.trains(q) ? 1 : 0;
    if (published[q] != wanted)
      return broken(p, p.table->parameters[q].name + " is in " + std::to_string(published[q]) +
                           " publish sets, wanted " + std::to_string(wanted));
    if (!p.trains(q)) {
      if (in_buckets[q] != 0) return broken(p, p.table->parameters[q].name + " is frozen but in a bucket");
      continue;
    }
    const auto& bucket = p.buckets[p.bucket_of[q]].parameters;
    const bool there = std::any_of(bucket.begin(), bucket.end(), [&](const placement& x) { return x.parameter == q; });
    if (in_buckets[q] != 1 || !there) return broken(p, p.table->parameters[q].name + " is not in exactly one bucket");
  }
  return {};
}

// Every owned element is in exactly one sub-group, its moments where the layout has them.
core::result<void> owned(const step_plan& p) {
  if (p.options.mode != mode::train) return {};
  std::vector<std::vector<extent>> covered(p.table->parameters.size());
  std::vector<uint32_t> groups_of_set(p.matrix_sets.size(), 0);
  for (const auto& g : p.sub_groups) {
    uint64_t total = 0;
    update_need need = g.matrices == none ? update_need::elements : update_need::whole_matrix;
    if (g.matrices != none) ++groups_of_set[g.matrices];
    for (const auto& x : g.pieces) {
      need = std::max(need, p.need_of(x.parameter));
      const slice mine = p.state_slice(x.parameter, p.rank);
      const uint64_t base = p.state_offset[p.rank][x.parameter];
      const auto in_set = [&](const placement& y) { return y.parameter == x.parameter; };
      if (g.matrices != none && std::none_of(p.matrix_sets[g.matrices].parameters.begin(),
                                             p.matrix_sets[g.matrices].parameters.end(), in_set))
        return broken(
            p, "a sub-group updates " + p.table->parameters[x.parameter].name + ", which is not in its matrix set");
      const bool inside = x.range.first >= mine.first && x.range.first + x.range.count <= mine.first + mine.count;
      if (!inside || x.state_offset != base + (x.range.first - mine.first))
        return broken(p, "a sub-group updates elements of " + p.table->parameters[x.parameter].name +
                             " that are another rank's, or keeps their moments elsewhere");
      covered[x.parameter].push_back({x.range.first, x.range.first + x.range.count});
      total += x.range.count;
    }
    if (total != g.elements) return broken(p, "a sub-group counts its elements wrongly");
    if (need != g.need) return broken(p, "a sub-group needs more or less than its parameters do");
  }
  for (uint32_t n : groups_of_set)
    if (n != 1) return broken(p, "a matrix set is updated by " + std::to_string(n) + " sub-groups, wanted one");
  for (uint32_t q = 0; q < covered.size(); ++q) {
    uint64_t total = 0;
    for (const auto& x : covered[q]) total += x.end - x.first;
    const uint64_t wanted = p.state_slice(q, p.rank).count;
    if (total != wanted || !apart(covered[q], numel(p, q)))
      return broken(p, p.table->parameters[q].name + ": not every owned element is updated exactly once");
  }
  return {};
}

// Finds the parameter at an element of a set; its placements are apart.
std::optional<placement> member_at(const std::vector<placement>& sorted, uint64_t element) {
  auto it = std::upper_bound(sorted.begin(), sorted.end(), element,
                             [](uint64_t e, const placement& x) { return e < x.offset; });
  if (it == sorted.begin()) return std::nullopt;
  return *std::prev(it);
}

enum class purpose : uint8_t { gather, reduce, collect, publish };

/// Where an element lies on the other side of the collective, given its place on the side that the set describes.
uint64_t other_side(rank_plans ranks, purpose why, const parameter_set& set, uint32_t q, uint32_t owner,
                    uint64_t first) {
  const step_plan& p = *ranks[owner];
  switch (why) {
    case purpose::gather:
      if (p.options.tiers.parameters == tier::nvme) {
        const auto index = static_cast<uint32_t>(&set - ranks[0]->gather_sets.data());
        return in_window(shard_runs(p, index, owner), linear_place(p, q, first));
      }
      return p.shard_offset[owner][q] + first - p.partition.of(q, owner).first;
    case purpose::reduce:
      return reduced_gradient(p, q, first).offset;
    case purpose::publish:
      return p.full_offset[q] + first;
    case purpose::collect: {
      const auto& members = set.parameters;
      const auto at =
          std::find_if(members.begin(), members.end(), [&](const placement& x) { return x.parameter == q; });
      return at->offset + first;
    }
  }
  return 0;
}

core::result<void> moves(rank_plans ranks, purpose why, const parameter_set& set, const std::vector<moved_piece>& all) {
  const step_plan& p = *ranks[0];
  std::vector<placement> members = set.parameters;
  if (why == purpose::publish)
    for (auto& x : members) x.offset = p.full_offset[x.parameter];
  std::sort(members.begin(), members.end(), [](const placement& a, const placement& b) { return a.offset < b.offset; });
  std::vector<extent> covered;
  uint64_t total = 0;
  for (const auto& x : all) {
    const uint64_t here = why == purpose::reduce ? x.from : x.to, there = why == purpose::reduce ? x.to : x.from;
    const auto member = member_at(members, here);
    if (!member || x.owner >= ranks.size()) return broken(p, set.name + ": a piece has no owner or no parameter");
    const uint64_t first = here - member->offset;
    const slice& s = p.partition.of(member->parameter, x.owner);
    if (x.count == 0 || first < s.first || first + x.count > s.first + s.count ||
        there != other_side(ranks, why, set, member->parameter, x.owner, first))
      return broken(p, set.name + ": a piece of " + p.table->parameters[member->parameter].name +
                           " is not its owner's or goes to the wrong place");
    covered.push_back({here, here + x.count});
    total += x.count;
  }
  const uint64_t bound = why == purpose::publish ? p.full_elements : set.elements;
  if (total != set.numel || !apart(covered, bound))
    return broken(p, set.name + ": its pieces do not cover each parameter exactly once");
  return {};
}

// Each matrix goes whole from the rank that made it orthogonal.
core::result<void> spreads(const step_plan& p, const parameter_set& set, const std::vector<moved_piece>& all) {
  bool sound = all.size() == set.parameters.size();
  for (size_t i = 0; i < all.size() && sound; ++i) {
    const placement& x = set.parameters[i];
    sound = all[i] == moved_piece{p.matrix_owner[x.parameter], x.offset, x.offset, numel(p, x.parameter)};
  }
  if (!sound) return broken(p, set.name + ": an orthogonal matrix does not come whole from its owner");
  return {};
}

// In place, and every block of a parameter whose norm is needed exactly once, from the rank that owns the block.
core::result<void> measure_covers(const step_plan& p, const std::vector<moved_piece>& all) {
  std::vector<extent> covered;
  uint64_t total = 0, wanted = 0;
  for (const auto& x : all) {
    if (x.from != x.to || x.owner >= p.options.ranks) return broken(p, "a piece of the measure moves elsewhere");
    covered.push_back({x.to, x.to + x.count});
    total += x.count;
  }
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q)
    if (p.need_of(q) == update_need::parameter_norms) wanted += 2 * core::div_up(numel(p, q), core::partition_grain);
  if (total != wanted || !apart(covered, p.measured_elements()))
    return broken(p, "the measure's pieces do not cover each square sum exactly once");
  return {};
}

core::result<void> vote_covers(const step_plan& p, const std::vector<moved_piece>& all) {
  std::vector<extent> covered;
  uint64_t total = 0;
  for (const auto& x : all) {
    if (x.from != x.to || x.owner >= p.options.ranks) return broken(p, "a piece of the vote moves elsewhere");
    covered.push_back({x.to, x.to + x.count});
    total += x.count;
  }
  if (total != p.vote_elements() || !apart(covered, p.vote_elements()))
    return broken(p, "the vote's pieces do not cover each square sum and loss exactly once");
  return {};
}

}  // namespace

core::result<void> layouts(const step_plan& p) {
  for (auto rule : {cuts, offsets, sets, owned})
    if (auto ok = rule(p); !ok) return ok;
  return {};
}

core::result<void> pieces(rank_plans ranks) {
  const step_plan& first = *ranks[0];
  const auto same = [&](auto list_of) -> core::result<std::vector<moved_piece>> {
    std::vector<moved_piece> wanted = list_of(first);
    for (const auto& p : ranks)
      if (list_of(*p) != wanted) return broken(*p, "a collective has other pieces than on rank 0");
    return wanted;
  };
  const auto each = [&](purpose why, const std::vector<parameter_set>& sets, auto list_of) -> core::result<void> {
    for (uint32_t i = 0; i < sets.size(); ++i) {
      auto list = same([&](const step_plan& p) { return list_of(p, i); });
      if (!list) return core::fail(list.error());
      if (auto ok = moves(ranks, why, sets[i], *list); !ok) return ok;
    }
    return {};
  };
  if (first.gathers())
    if (auto ok = each(purpose::gather, first.gather_sets, gather_pieces); !ok) return ok;
  if (auto ok = each(purpose::reduce, first.buckets, reduce_pieces); !ok) return ok;
  if (auto ok = each(purpose::collect, first.matrix_sets, collect_pieces); !ok) return ok;
  for (uint32_t k = 0; k < first.matrix_sets.size(); ++k) {
    auto list = same([&](const step_plan& p) { return spread_pieces(p, k); });
    if (!list) return core::fail(list.error());
    if (auto ok = spreads(first, first.matrix_sets[k], *list); !ok) return ok;
  }
  if (first.options.mode == mode::train) {
    auto list = same(measure_pieces);
    if (!list) return core::fail(list.error());
    if (auto ok = measure_covers(first, *list); !ok) return ok;
  }
  if (auto ok = each(purpose::publish, first.publish_sets, publish_pieces); !ok) return ok;
  if (first.options.mode != mode::train && first.options.mode != mode::evaluate) return {};
  auto list = same(vote_pieces);
  if (!list) return core::fail(list.error());
  return vote_covers(first, *list);
}

}  // namespace troupe::plan::rules
