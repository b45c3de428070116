// The form of a plan: what every other rule takes for granted, and what ranks must agree on before they meet.
#include <algorithm>

#include "plan/check/rules.hpp"

namespace troupe::plan::rules {
namespace {

std::string numbered(const instruction& x) {
  return "instruction " + std::to_string(x.id) + ", a " + std::string(name_of(x.kind)) + ",";
}

core::result<void> sizes(const step_plan& p) {
  if (p.table == nullptr || p.table->units.empty() || p.table->parameters.empty()) return broken(p, "no model table");
  const auto& o = p.options;
  const size_t parameters = p.table->parameters.size(), units = p.table->units.size();
  const bool trains = o.mode == mode::train;
  for (const auto& u : p.table->units) {
    const auto known = [&](uint32_t q) { return q < parameters; };
    if (!std::all_of(u.parameters.begin(), u.parameters.end(), known)) return broken(p, u.name + " names no parameter");
    for (const auto& s : u.segments)
      for (uint32_t q : s.parameters)
        if (std::find(u.parameters.begin(), u.parameters.end(), q) == u.parameters.end())
          return broken(p,
                        "a segment of " + u.name + " writes a gradient that its unit does not read the parameter of");
  }
  if (o.accumulation == 0 || o.ranks == 0 || p.rank >= o.ranks || o.stage > 3) return broken(p, "impossible degrees");
  const bool sound = p.lanes.size() == num_lanes && p.gather_sets.size() == units + 1 &&
                     p.persistent.size() == parameters && p.full_offset.size() == parameters &&
                     p.block_offset.size() == parameters && p.shard_offset.size() == o.ranks &&
                     p.shard_elements.size() == o.ranks && p.partition.slices.size() == parameters &&
                     p.bucket_of.size() == (trains ? parameters : 0) && p.matrix_owner.size() == p.bucket_of.size() &&
                     p.state_offset.size() == o.ranks && p.state_elements.size() == o.ranks &&
                     (o.optimizer.empty() || o.optimizer.size() == parameters) &&
                     std::all_of(std::begin(p.moment_offset), std::end(p.moment_offset),
                                 [&](const auto& x) { return x.size() == parameters; }) &&
                     std::all_of(p.state_offset.begin(), p.state_offset.end(),
                                 [&](const auto& x) { return x.size() == parameters; }) &&
                     p.bucket_buffer.size() == p.buckets.size() * o.accumulation &&
                     std::all_of(p.shard_offset.begin(), p.shard_offset.end(),
                                 [&](const auto& x) { return x.size() == parameters; }) &&
                     std::all_of(p.partition.slices.begin(), p.partition.slices.end(),
                                 [&](const auto& x) { return x.size() == o.ranks; });
  if (p.undo_offset.size() != p.sub_groups.size()) return broken(p, "not every sub-group says whether it speculates");
  if (!sound) return broken(p, "its tables do not have the sizes of its model and degrees");
  for (const auto* sets : {&p.gather_sets, &p.buckets, &p.matrix_sets, &p.publish_sets})
    for (const auto& s : *sets)
      for (const auto& x : s.parameters)
        if (x.parameter >= parameters) return broken(p, s.name + " holds a parameter that the model does not have");
  for (const auto& g : p.sub_groups)
    for (const auto& x : g.pieces)
      if (x.parameter >= parameters) return broken(p, "a sub-group holds a parameter that the model does not have");
  for (const auto& g : p.sub_groups)
    if (g.need == update_need::whole_matrix ? g.matrices >= p.matrix_sets.size() : g.matrices != none)
      return broken(p, "a sub-group has a matrix set that is not its own");
  for (uint32_t q = 0; q < p.bucket_of.size(); ++q)
    if (p.trains(q) ? p.bucket_of[q] >= p.buckets.size() : p.bucket_of[q] != none)
      return broken(p, p.table->parameters[q].name + (p.trains(q) ? " is in no bucket: no segment writes its gradient"
                                                                  : " is frozen but in a bucket"));
  for (uint32_t b : p.bucket_buffer)
    if (b >= p.buffers.size()) return broken(p, "a bucket has no memory in some micro-batch");
  return {};
}

bool subject_is_known(const step_plan& p, const instruction& x) {
  switch (x.kind) {
    case kind::load:
    case kind::vote:
    case kind::measure:
      return x.subject == none;
    case kind::gather:
    case kind::release:
      return x.subject < p.gather_sets.size();
    case kind::forward:
    case kind::backward:
      return x.subject < p.table->units.size() && x.segment < p.table->units[x.subject].segments.size();
    case kind::recompute:
      return x.subject < p.table->units.size() && x.segment == none;
    case kind::reduce:
    case kind::norm:
      return x.subject < p.buckets.size();
    case kind::prepare:
    case kind::update:
    case kind::undo:
      return x.subject < p.sub_groups.size();
    case kind::collect:
    case kind::orthogonalise:
    case kind::spread:
      return x.subject < p.matrix_sets.size();
    case kind::publish:
      return x.subject < p.publish_sets.size();
    case kind::snapshot:
    case kind::write:
      return x.subject < p.snapshots.size();
    case kind::swap_in:
    case kind::swap_out:
      switch (x.what) {
        case swapped::nothing:
          return false;
        case swapped::states:
          return x.subject < p.sub_groups.size();
        case swapped::gradients:
          return x.subject < p.buckets.size();
        case swapped::shards:
          return x.subject < p.gather_sets.size();
        case swapped::activations:
          return x.subject < p.table->units.size();
      }
      return false;
  }
  return false;
}

core::result<void> instructions(const step_plan& p) {
  const size_t n = p.instructions.size();
  for (size_t i = 0; i < n; ++i) {
    const instruction& x = p.instructions[i];
    if (x.id != i)
      return broken(p, "place " + std::to_string(i) + " holds the instruction numbered " + std::to_string(x.id));
    if (!subject_is_known(p, x)) return broken(p, numbered(x) + " has a subject that does not exist");
    if (x.lane != lane_of(x.kind)) return broken(p, x.id, "is on the " + std::string(name_of(x.lane)) + " lane");
    if (x.micro >= p.options.accumulation) return broken(p, x.id, "belongs to a micro-batch that does not exist");
    if (x.staged != none && x.staged >= p.buffers.size()) return broken(p, x.id, "names a window that does not exist");
    if ((x.what != swapped::nothing) != (x.lane == lane::io)) return broken(p, x.id, "moves what it is not for");
    if (x.buffer != none && x.buffer >= p.buffers.size()) return broken(p, x.id, "names a buffer that does not exist");
    for (uint32_t on : x.after)
      if (on >= n || on == i)
        return broken(p, x.id, "waits for instruction " + std::to_string(on) + ", which is not another");
  }
  for (const auto& b : p.buffers)
    if (b.first >= n || b.last >= n || static_cast<uint32_t>(b.pool) >= num_pools)
      return broken(p, "a buffer of " + std::to_string(b.bytes) + " bytes has no beginning, no end or no pool");
  return {};
}

core::result<void> lanes(const step_plan& p) {
  std::vector<bool> seen(p.instructions.size(), false);
  size_t held = 0;
  for (uint32_t l = 0; l < num_lanes; ++l)
    for (uint32_t id : p.lanes[l]) {
      if (id >= seen.size())
        return broken(p, "a lane holds instruction " + std::to_string(id) + ", which does not exist");
      if (seen[id]) return broken(p, id, "stands in lanes twice");
      if (static_cast<uint32_t>(p.instructions[id].lane) != l)
        return broken(p, id, "stands in the order of the " + std::string(name_of(static_cast<lane>(l))) + " lane");
      seen[id] = true;
      ++held;
    }
  if (held != seen.size())
    return broken(p, static_cast<uint32_t>(std::find(seen.begin(), seen.end(), false) - seen.begin()),
                  "stands in no lane");
  return {};
}

core::result<void> sequences(const step_plan& p) {
  const auto& order = p.lanes[static_cast<size_t>(lane::fabric)];
  if (order.size() != p.num_collectives)
    return broken(
        p, "it has " + std::to_string(order.size()) + " collectives and says " + std::to_string(p.num_collectives));
  for (uint32_t k = 0; k < order.size(); ++k)
    if (p.instructions[order[k]].sequence != k || p.instructions[order[k]].communicator != 0)
      return broken(p, order[k], "is collective " + std::to_string(k) + " of its lane but numbered otherwise");
  return {};
}

}  // namespace

core::result<void> structure(const step_plan& p) {
  for (auto rule : {sizes, instructions, lanes, sequences})
    if (auto ok = rule(p); !ok) return ok;
  return {};
}

core::result<void> agreement(rank_plans ranks) {
  const step_plan& first = *ranks[0];
  if (ranks.size() != first.options.ranks)
    return broken(first,
                  "it is one of " + std::to_string(first.options.ranks) + ", got " + std::to_string(ranks.size()));
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const step_plan& p = *ranks[r];
    if (p.rank != r) return broken(p, "it stands at place " + std::to_string(r));
    const bool same = p.options == first.options && p.partition.slices == first.partition.slices &&
                      p.gather_sets == first.gather_sets && p.buckets == first.buckets &&
                      p.publish_sets == first.publish_sets && p.matrix_sets == first.matrix_sets &&
                      p.matrix_owner == first.matrix_owner && p.state_offset == first.state_offset &&
                      p.state_elements == first.state_elements && p.bucket_begin == first.bucket_begin &&
                      p.persistent == first.persistent && p.full_offset == first.full_offset &&
                      p.shard_offset == first.shard_offset && p.block_offset == first.block_offset &&
                      p.num_blocks == first.num_blocks && p.table->parameters.size() == first.table->parameters.size();
    if (!same) return broken(p, "its options, sets or layouts are not those of rank 0");
    const auto &order = p.lanes[static_cast<size_t>(lane::fabric)],
               &wanted = first.lanes[static_cast<size_t>(lane::fabric)];
    for (uint32_t k = 0; k < std::min(order.size(), wanted.size()); ++k) {
      const instruction &x = p.instructions[order[k]], &y = first.instructions[wanted[k]];
      if (x.kind != y.kind || x.subject != y.subject || x.micro != y.micro || x.use != y.use || x.bytes != y.bytes ||
          x.guard != y.guard)
        return broken(p, x.id, "is collective " + std::to_string(k) + ", where rank 0 has " + name(first, y.id));
    }
    if (order.size() != wanted.size())
      return broken(
          p, "it has " + std::to_string(order.size()) + " collectives, rank 0 has " + std::to_string(wanted.size()));
  }
  return {};
}

core::result<void> serial(const step_plan& p) {
  for (const auto& order : p.lanes)
    for (size_t i = 1; i < order.size(); ++i)
      if (order[i] < order[i - 1])
        return broken(p, order[i], "stands behind " + name(p, order[i - 1]) + " in its lane");
  for (const auto& x : p.instructions)
    for (uint32_t on : x.after)
      if (on > x.id) return broken(p, x.id, "waits for " + name(p, on) + ", which comes later");
  return {};
}

}  // namespace troupe::plan::rules
