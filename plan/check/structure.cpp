// Checks the form of a plan: facts that every other rule relies on, and facts that all ranks must agree on.
#include <fmt/format.h>

#include <algorithm>

#include "plan/check/rules.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/communicators.hpp"

namespace troupe::plan::rules {
namespace {

std::string numbered(const instruction& x) { return fmt::format("instruction {}, a {},", x.id, name_of(x.kind)); }

core::result<void> sizes(const rank_plan& p) {
  const auto& o = p.options();
  const size_t parameters = p.table().parameters.size();
  if (p.rank >= o.ranks()) return broken(p, "impossible degrees");
  const auto row = [&](const auto& x) { return x.size() == parameters; };
  const bool sound = p.lanes.size() == num_lanes && row(p.offsets.shard) && row(p.offsets.state) &&
                     std::all_of(std::begin(p.moment_offset), std::end(p.moment_offset), row) &&
                     p.bucket_buffer.size() == p.layout->buckets.size() * o.accumulation &&
                     p.bucket_window.size() == p.layout->buckets.size();
  if (p.undo_offset.size() != p.sub_groups.size())
    return broken(p, "its table of undo copies does not have one entry for each sub-group");
  if (!sound) return broken(p, "its tables do not have the sizes of its model and degrees");
  for (const auto& g : p.sub_groups)
    for (const auto& x : g.pieces)
      if (x.parameter >= parameters) return broken(p, "a sub-group holds a parameter that the model does not have");
  for (const auto& g : p.sub_groups)
    if (g.need == update_need::whole_matrix ? g.matrices >= p.layout->matrix_sets.size() : g.matrices != none)
      return broken(p, "a sub-group has a matrix set that is not its own");
  for (const uint32_t window : p.bucket_window)
    if (window != none && window >= p.buffers.size()) return broken(p, "a bucket has a window that does not exist");
  for (size_t i = 0; i < p.bucket_buffer.size(); ++i) {
    const bool own = p.layout->buckets[i / o.accumulation].pipeline == p.options().mesh.pipeline_at(p.rank);
    const std::string name = p.layout->buckets[i / o.accumulation].name;
    if (!own && p.bucket_buffer[i] != none) return broken(p, name + " has memory here but is another rank's");
    if (own && p.bucket_buffer[i] >= p.buffers.size())
      return broken(p, fmt::format("nothing opens the memory of {} in micro-batch {}", name, i % o.accumulation));
  }
  return {};
}

/// True if the instruction's subject exists, and its segment if it has one.
bool subject_is_known(const rank_plan& p, const instruction& x) {
  if (row_of(x.kind).subject == subject_type::nothing) return x.subject == none;
  if (x.subject >= num_subjects(p, subject_of(x))) return false;
  return x.segment == none || x.segment < p.table().units[x.subject].segments.size();
}

/// True if the kind of instruction may have this use: a backward is whole or an input part; a backward_weight is always
/// a weight part, and no other kind may be one.
bool use_is_known(const instruction& x) {
  if (x.kind == kind::backward) return x.use == use::backward || x.use == use::input;
  return (x.use == use::weights) == (x.kind == kind::backward_weight) && x.use != use::input;
}

core::result<void> instructions(const rank_plan& p) {
  const size_t n = p.instructions.size();
  for (size_t i = 0; i < n; ++i) {
    const instruction& x = p.instructions[i];
    if (x.id != i) return broken(p, fmt::format("place {} holds the instruction numbered {}", i, x.id));
    if (const std::string fault = fault_of_fields(x); !fault.empty()) return broken(p, numbered(x) + " " + fault);
    if (!subject_is_known(p, x)) return broken(p, numbered(x) + " has a subject that does not exist");
    if (!use_is_known(x)) return broken(p, x.id, "belongs to a use that its kind does not have");
    if (x.lane != lane_of(x.kind)) return broken(p, x.id, "is on the " + std::string(name_of(x.lane)) + " lane");
    if (x.micro >= p.options().accumulation) return broken(p, x.id, "belongs to a micro-batch that does not exist");
    for (const auto slot : all_slots)
      if (x.slots.*slot != none && x.slots.*slot >= p.buffers.size())
        return broken(p, x.id, "names a slot that does not exist");
    for (uint32_t on : x.after)
      if (on >= n || on == i)
        return broken(p, x.id, fmt::format("waits for instruction {}, which is itself or does not exist", on));
  }
  for (const auto& b : p.buffers) {
    const auto what = [&] { return fmt::format("a buffer of {} bytes", b.bytes); };
    if (b.first >= n || static_cast<uint32_t>(b.pool) >= num_pools)
      return broken(p, what() + " has no beginning or no pool");
    if (b.last >= n) return broken(p, b.first, "opens " + what() + " that nothing closes");
  }
  return {};
}

core::result<void> lanes(const rank_plan& p) {
  std::vector<bool> seen(p.instructions.size(), false);
  size_t held = 0;
  for (uint32_t l = 0; l < num_lanes; ++l)
    for (uint32_t id : p.lanes[l]) {
      if (id >= seen.size()) return broken(p, fmt::format("a lane holds instruction {}, which does not exist", id));
      if (seen[id]) return broken(p, id, "occurs twice in lanes");
      if (static_cast<uint32_t>(p.instructions[id].lane) != l)
        return broken(p, id, "is in the order of the " + std::string(name_of(static_cast<lane>(l))) + " lane");
      seen[id] = true;
      ++held;
    }
  if (held != seen.size())
    return broken(p, static_cast<uint32_t>(std::find(seen.begin(), seen.end(), false) - seen.begin()),
                  "is not in any lane");
  return {};
}

core::result<void> sequences(const rank_plan& p) {
  const auto& all = p.layout->communicators;
  std::vector<uint32_t> counted(all.size(), 0);
  for (const uint32_t id : p.lanes[static_cast<size_t>(lane::fabric)]) {
    const instruction& x = p.instructions[id];
    if (x.communicator >= all.size() || !std::ranges::binary_search(all[x.communicator].members, p.rank) ||
        x.communicator != communicator_of(*p.layout, p.rank, x))
      return broken(p, id, "has a communicator that its rank does not belong to");
    const uint32_t k = counted[x.communicator]++;
    if (x.sequence != k)
      return broken(p, id,
                    fmt::format("is collective {} of \"{}\" but numbered otherwise", k, all[x.communicator].name));
  }
  if (counted != p.num_collectives) return broken(p, "it says other numbers of collectives than it has");
  return {};
}

/// True if `a` and `b` are two members' parts of one collective. For a transfer these are the send and the receive of
/// neighbouring units.
bool same_task(const rank_plan& pa, const instruction& a, const rank_plan& pb, const instruction& b) {
  if (!is_transfer(a.kind) || !is_transfer(b.kind))
    return a.kind == b.kind && a.subject == b.subject && a.segment == b.segment && a.repeats == b.repeats &&
           a.piece == b.piece;
  if (a.kind == b.kind) return false;
  return a.use == b.use && later_stage(*pa.layout, a) == later_stage(*pb.layout, b);
}

/// Checks that the collectives of one communicator are equal on two of its members.
core::result<void> same_collectives(const rank_plan& first, const std::vector<uint32_t>& wanted, const rank_plan& p,
                                    const std::vector<uint32_t>& order) {
  for (uint32_t k = 0; k < std::min(order.size(), wanted.size()); ++k) {
    const instruction &x = p.instructions[order[k]], &y = first.instructions[wanted[k]];
    if (!same_task(first, y, p, x) || x.micro != y.micro || x.use != y.use || x.moved_bytes != y.moved_bytes ||
        x.guard != y.guard)
      return broken(p, x.id, fmt::format("is collective {}, where rank {} has {}", k, first.rank, name(first, y.id)));
  }
  if (order.size() != wanted.size())
    return broken(p, fmt::format("it has {} collectives, rank {} has {}", order.size(), first.rank, wanted.size()));
  return {};
}

}  // namespace

size_t num_subjects(const rank_plan& p, subject_type of) {
  switch (of) {
    case subject_type::gather_set:
      return p.layout->gather_sets.size();
    case subject_type::unit:
      return p.table().units.size();
    case subject_type::bucket:
      return p.layout->buckets.size();
    case subject_type::tie_exchange:
      return p.layout->exchanges.size();
    case subject_type::tie:
      return p.layout->ties.size();
    case subject_type::sub_group:
      return p.sub_groups.size();
    case subject_type::matrix_set:
      return p.layout->matrix_sets.size();
    case subject_type::publish_set:
      return p.layout->publish_sets.size();
    case subject_type::snapshot:
      return p.snapshots.size();
    case subject_type::nothing:
    case subject_type::of_swap:
      return 0;
  }
  return 0;
}

core::result<void> structure(const rank_plan& p) {
  for (auto rule : {sizes, instructions, lanes, sequences}) TROUPE_TRY(rule(p));
  return {};
}

core::result<void> agreement(rank_plans ranks) {
  // [communicator]: plan of the first member found, and the ids of that member's collectives. Communicators whose
  // collectives are equal, such as those of two shard groups with equal states, share one entry.
  std::vector<std::pair<const rank_plan*, std::vector<uint32_t>>> first(ranks[0]->layout->communicators.size());
  for (const auto& p : ranks) {
    std::vector<std::vector<uint32_t>> mine(first.size());
    for (const uint32_t id : p->lanes[static_cast<size_t>(lane::fabric)])
      mine[p->instructions[id].communicator].push_back(id);
    for (uint32_t c = 0; c < first.size(); ++c) {
      if (!std::ranges::binary_search(p->layout->communicators[c].members, p->rank)) continue;
      auto& [seen, theirs] = first[alike(*p->layout, c)];
      if (seen == nullptr) {
        seen = p.get();
        theirs = std::move(mine[c]);
        continue;
      }
      TROUPE_TRY(same_collectives(*seen, theirs, *p, mine[c]));
    }
  }
  return {};
}

core::result<void> serial(const rank_plan& p) {
  for (const auto& order : p.lanes)
    for (size_t i = 1; i < order.size(); ++i)
      if (order[i] < order[i - 1]) return broken(p, order[i], "comes after " + name(p, order[i - 1]) + " in its lane");
  for (const auto& x : p.instructions)
    for (uint32_t on : x.after)
      if (on > x.id) return broken(p, x.id, "waits for " + name(p, on) + ", which comes later");
  return {};
}

}  // namespace troupe::plan::rules
