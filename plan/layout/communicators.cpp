#include "plan/layout/communicators.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/layout/ties.hpp"

namespace troupe::plan {

namespace {

/// Returns the rank of pipeline coordinate `at` in column `column`. A column is the ranks that differ only in their
/// pipeline coordinate, one for each pipeline stage; columns are numbered in the order of their first ranks.
uint32_t rank_in_column(const core::mesh& mesh, uint32_t at, uint32_t column) {
  return at * (mesh.ranks() / mesh.degree(core::axis::pipeline)) + column;
}

bool crosses_ranks(const plan_options& o, uint32_t later) {
  const auto& at = o.pipeline.table.rank_of_stage;
  return at[later - 1] != at[later];
}

std::string pair_name(const std::string& what, uint32_t a, uint32_t b, uint32_t column) {
  return fmt::format("{} {} and {}, column {}", what, a, b, column);
}

uint32_t tensor_ranks(const plan_options& o) { return o.mesh.degree(core::axis::tensor); }

/// Number of pairs of a pipeline and a tensor coordinate. The ranks of a pair hold the same parameters.
uint32_t holders_of(const plan_options& o) { return o.mesh.degree(core::axis::pipeline) * tensor_ranks(o); }

/// Returns the number of ranks with the same pipeline coordinate, which is the number of columns of a pipeline.
uint32_t columns_of(const plan_options& o) { return o.ranks() / o.mesh.degree(core::axis::pipeline); }

/// Returns the index of the first communicator of a shard group (the ranks that together hold one copy of the states),
/// if there are such communicators.
uint32_t first_shard_communicator(const plan_options& o) {
  if (holders_of(o) == 1) return 1;
  uint32_t boundaries = 0;
  for (uint32_t later = 1; later < o.pipeline.table.rank_of_stage.size(); ++later)
    boundaries += crosses_ranks(o, later) ? 1 : 0;
  return holders_of(o) + 1 + 2 * columns_of(o) * boundaries;
}

void add_transfers(std::vector<communicator>& out, const plan_options& o) {
  const auto& at = o.pipeline.table.rank_of_stage;
  for (uint32_t later = 1; later < at.size(); ++later)
    for (uint32_t column = 0; column < columns_of(o) && crosses_ranks(o, later); ++column) {
      std::vector<uint32_t> members{rank_in_column(o.mesh, at[later - 1], column),
                                    rank_in_column(o.mesh, at[later], column)};
      std::ranges::sort(members);
      for (const char* what : {"activations", "gradients"})
        out.push_back({pair_name(std::string(what) + " between stages", later - 1, later, column), members});
    }
}

/// Returns " of pipeline rank 1, tensor rank 0", without the axes of degree 1.
std::string holder_name(const plan_options& o, uint32_t pipeline, uint32_t tensor) {
  std::string out;
  if (o.mesh.degree(core::axis::pipeline) > 1) out += fmt::format(" of pipeline rank {}", pipeline);
  if (tensor_ranks(o) > 1) out += fmt::format("{} tensor rank {}", out.empty() ? " of" : ",", tensor);
  return out;
}

/// Calls f(pipeline, tensor) for all pairs of these coordinates, in the order of their communicators.
void for_each_holder(const plan_options& o, auto f) {
  for (uint32_t k = 0; k < o.mesh.degree(core::axis::pipeline); ++k)
    for (uint32_t t = 0; t < tensor_ranks(o); ++t) f(k, t);
}

void add_replicas(std::vector<communicator>& out, const plan_options& o) {
  constexpr auto within = core::axis_set{core::axis::pipeline, core::axis::replicate, core::axis::tensor}.complement();
  for_each_holder(o, [&](uint32_t k, uint32_t t) {
    for (uint32_t replica = 0; replica < o.replicas(); ++replica) {
      core::coordinate first;
      first[core::axis::pipeline] = k;
      first[core::axis::replicate] = replica;
      first[core::axis::tensor] = t;
      out.push_back(
          {fmt::format("replica {}{}", replica, holder_name(o, k, t)), o.mesh.group_of(o.mesh.rank_at(first), within)});
    }
  });
}

void add_near_groups(std::vector<communicator>& out, const plan_options& o) {
  for (uint32_t holder = 0; holder < holders_of(o); ++holder) {
    const auto all = out[holder].members;
    for (size_t first = 0; first < all.size(); first += o.gathering.near) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      out.push_back({fmt::format("second copy of ranks {} to {}", *begin, begin[o.gathering.near - 1]),
                     {begin, begin + o.gathering.near}});
    }
  }
}

void add_tensor_groups(std::vector<communicator>& out, const plan_options& o) {
  constexpr auto of_pipeline = core::axis_set{core::axis::pipeline}.complement();
  for (uint32_t k = 0; k < o.mesh.degree(core::axis::pipeline); ++k) {
    const auto all = o.mesh.group_of(o.mesh.at_stage(0, k), of_pipeline);
    for (const uint32_t r : all)
      if (o.mesh.coordinate_of(r, core::axis::tensor) == 0) {
        const auto members = o.mesh.group_of(r, {core::axis::tensor});
        out.push_back({fmt::format("tensor group of ranks {} to {}", members.front(), members.back()), members});
      }
  }
  for (uint32_t k = 0; k < o.mesh.degree(core::axis::pipeline); ++k)
    out.push_back(
        {"data and tensor" +
             (o.mesh.degree(core::axis::pipeline) == 1 ? std::string() : fmt::format(" of pipeline rank {}", k)),
         o.mesh.matching({{core::axis::pipeline, k}})});
}

void add_sequence_groups(std::vector<communicator>& out, const plan_options& o) {
  for (uint32_t k = 0; k < o.mesh.degree(core::axis::pipeline); ++k)
    for (const uint32_t r : o.mesh.matching({{core::axis::pipeline, k}}))
      if (o.mesh.position(r, core::sequence_axes) == 0) {
        const auto members = o.mesh.group_of(r, core::sequence_axes);
        out.push_back({fmt::format("sequence group of ranks {} to {}", members.front(), members.back()), members});
      }
}

/// A range of communicators from number `first` on: `each` communicators for every pipeline coordinate, in the order of
/// tensor coordinates, equally many for each tensor coordinate.
struct family {
  uint32_t first = 0, each = 0;
};

family replicas_of(const plan_options& o) {
  return {first_shard_communicator(o), o.replicas() > 1 ? o.replicas() * tensor_ranks(o) : 0};
}
family near_groups_of(const plan_options& o) {
  const family before = replicas_of(o);
  return {before.first + o.mesh.degree(core::axis::pipeline) * before.each,
          o.has_near_copies() ? o.data() / o.gathering.near * tensor_ranks(o) : 0};
}
family tensor_groups_of(const plan_options& o) {
  const family before = near_groups_of(o);
  return {before.first + o.mesh.degree(core::axis::pipeline) * before.each, tensor_ranks(o) > 1 ? o.data() : 0};
}
/// Returns the communicators that add gradients over all data and tensor ranks, for gradients that are sums over a
/// tensor group.
family over_tensor_of(const plan_options& o) {
  const family before = tensor_groups_of(o);
  return {before.first + o.mesh.degree(core::axis::pipeline) * before.each, before.each == 0 ? 0U : 1U};
}

/// Returns the communicators of sequence groups, in the order of their first ranks.
family sequence_groups_of(const plan_options& o) {
  const family before = over_tensor_of(o);
  return {before.first + o.mesh.degree(core::axis::pipeline) * before.each,
          o.sequence_ranks() > 1 ? o.data() / o.sequence_ranks() * tensor_ranks(o) : 0};
}

}  // namespace

std::vector<communicator> communicators_of(const plan_options& options, const std::vector<tie_exchange>& exchanges) {
  const auto& mesh = options.mesh;
  std::vector<communicator> out;
  for_each_holder(options, [&](uint32_t k, uint32_t t) {
    out.push_back(
        {"data" + holder_name(options, k, t), mesh.matching({{core::axis::pipeline, k}, {core::axis::tensor, t}})});
  });
  if (out.size() > 1) out.push_back({"all", mesh.group_of(0, core::all_axes)});
  add_transfers(out, options);
  if (options.replicas() > 1) add_replicas(out, options);
  if (options.has_near_copies()) add_near_groups(out, options);
  if (tensor_ranks(options) > 1) add_tensor_groups(out, options);
  if (options.sequence_ranks() > 1) add_sequence_groups(out, options);
  for (const auto& [a, b] : tied_pairs(exchanges))
    for (uint32_t column = 0; column < columns_of(options); ++column)
      out.push_back({pair_name("tied gradients of pipeline ranks", a, b, column),
                     {rank_in_column(mesh, a, column), rank_in_column(mesh, b, column)}});
  return out;
}

uint32_t data_communicator(const job_layout& l, uint32_t pipeline, uint32_t tensor) {
  return pipeline * l.options.mesh.tensor_ranks() + tensor;
}

uint32_t shard_communicator(const job_layout& l, uint32_t pipeline, uint32_t replica, uint32_t tensor) {
  const family all = replicas_of(l.options);
  if (all.each == 0) return data_communicator(l, pipeline, tensor);
  return all.first + pipeline * all.each + tensor * l.options.replicas() + replica;
}

uint32_t near_communicator(const job_layout& l, uint32_t rank) {
  const family all = near_groups_of(l.options);
  return all.first + l.options.mesh.pipeline_at(rank) * all.each +
         l.options.mesh.tensor_at(rank) * (all.each / l.options.mesh.tensor_ranks()) +
         l.options.mesh.data_at(rank) / l.options.gathering.near;
}

uint32_t over_tensor_communicator(const job_layout& l, uint32_t pipeline) {
  return over_tensor_of(l.options).first + pipeline;
}

uint32_t reduce_communicator(const job_layout& l, const parameter_set& bucket, uint32_t tensor) {
  return bucket.over_tensor ? over_tensor_communicator(l, bucket.pipeline)
                            : data_communicator(l, bucket.pipeline, tensor);
}

uint32_t alike(const job_layout& l, uint32_t c) {
  if (c < holders_of(l.options)) return c - c % l.options.mesh.tensor_ranks();
  for (const family& f :
       {replicas_of(l.options), near_groups_of(l.options), tensor_groups_of(l.options), sequence_groups_of(l.options)})
    if (c >= f.first && c < f.first + l.options.mesh.degree(core::axis::pipeline) * f.each)
      return c - (c - f.first) % f.each;
  return c;
}

uint32_t at_once(const job_layout& l, uint32_t c) {
  const plan_options& o = l.options;
  const uint32_t columns = columns_of(o);
  if (const uint32_t first = holders_of(o) + 1; holders_of(o) > 1 && c >= first && c < first_shard_communicator(o)) {
    const uint32_t within = c - first;  // by boundary, then column, then direction
    return first + within / (2 * columns) * (2 * columns) + within % 2;
  }
  const family last = sequence_groups_of(o);
  if (const uint32_t first_tied = last.first + o.mesh.degree(core::axis::pipeline) * last.each; c >= first_tied)
    return c - (c - first_tied) % columns;
  return alike(l, c);
}

uint32_t world_communicator(const job_layout& l) {
  const uint32_t holders = holders_of(l.options);
  return holders == 1 ? 0 : holders;
}

uint32_t later_stage(const job_layout& l, const operation& x) {
  return l.stage_of_unit[x.subject] + (meets_next_stage(x) ? 1 : 0);
}

uint32_t communicator_of(const job_layout& l, uint32_t rank, const operation& x) {
  const auto& mesh = l.options.mesh;
  const uint32_t pipeline = mesh.pipeline_at(rank), replica = l.options.replica_at(rank), tensor = mesh.tensor_at(rank),
                 columns = columns_of(l.options);
  const auto tensor_group = [&] {
    const family groups = tensor_groups_of(l.options);
    return groups.first + pipeline * groups.each + mesh.data_at(rank);
  };
  switch (row_of(x.kind).group) {
    case member_group::nobody:
      break;
    case member_group::all:
      return world_communicator(l);
    case member_group::shards:
      if (x.near && l.options.has_near_copies()) return near_communicator(l, rank);
      return shard_communicator(l, pipeline, replica, tensor);
    case member_group::reducers:
      return reduce_communicator(l, l.buckets[x.subject], tensor);
    case member_group::tensor:
      return tensor_group();
    case member_group::segment: {
      if (exchange_of(l, x.subject, x.segment, x.use).is_of_tensor_group()) return tensor_group();
      const family groups = sequence_groups_of(l.options);
      return groups.first + pipeline * groups.each + mesh.samples_at(rank) * mesh.tensor_ranks() + tensor;
    }
    case member_group::matrices:
      return matrix_communicator(l, pipeline, replica);
    case member_group::tied: {
      const auto& e = l.exchanges[x.subject];
      const auto pairs = tied_pairs(l.exchanges);
      const auto pair = std::ranges::find(pairs, std::pair(e.pipeline[0], e.pipeline[1]));
      return static_cast<uint32_t>(l.communicators.size()) - static_cast<uint32_t>(pairs.end() - pair) * columns +
             rank % columns;
    }
    case member_group::neighbours: {
      uint32_t boundary = 0;  // number of earlier boundaries between stages on different ranks
      for (uint32_t k = 1; k < later_stage(l, x); ++k) boundary += crosses_ranks(l.options, k) ? 1 : 0;
      return world_communicator(l) + 1 + 2 * (boundary * columns + rank % columns) + (x.use == use::backward ? 1 : 0);
    }
  }
  return none;
}

void add_collectives(std::vector<uint64_t>& met, rank_plans plans) {
  for (uint32_t c = 0; c < plans.front()->num_collectives.size(); ++c) {
    uint32_t most = 0;  // number of communicator c's collectives: equal on all members, 0 on other ranks
    for (const auto& p : plans) most = std::max(most, p->num_collectives[c]);
    if (met.size() <= c) met.push_back(0);
    met[c] += most;
  }
}

}  // namespace troupe::plan
