#include "plan/layout/pieces.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "plan/group_exchange.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/layout/own.hpp"
#include "plan/layout/ties.hpp"
#include "plan/stages.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan {
namespace {

/// Returns the ranks of a set's pipeline coordinate in the order of their shards: the ranks that together hold the
/// first copy of the states. Slices have the same offsets in every other copy.
const std::vector<uint32_t>& shards_of(const job_layout& l, uint32_t pipeline) {
  return l.communicators[shard_communicator(l, pipeline, 0)].members;
}

/// Repeats each piece of a reduction for every copy of the states and for each of `tensor` tensor coordinates, so that
/// the owner of the elements in each of them receives the sum; the repetitions of a piece follow each other. If all
/// ranks receive all sums, the piece is divided among these owners instead.
std::vector<moved_piece> in_replicas(const job_layout& l, const std::vector<moved_piece>& all, uint32_t tensor) {
  const uint32_t copies = l.options.replicas() * tensor, shards = l.options.shards();
  if (copies == 1) return all;
  std::vector<moved_piece> out;
  for (const auto& x : all)
    for (uint32_t copy = 0; copy < copies; ++copy) {
      uint64_t first = 0, count = x.count;
      if (l.options.reduce_to_all()) {
        const uint64_t each = core::round_up(core::div_up(x.count, copies), core::partition_grain);
        first = std::min(x.count, copy * each);
        count = std::min(x.count - first, each);
      }
      const uint32_t owner = (copy / tensor * shards + x.owner) * tensor + copy % tensor;
      if (count > 0) out.push_back({owner, x.from + first, x.to + first, count});
    }
  return out;
}

/// Returns the elements of a parameter that a rank sends to all other ranks. If several copies of the states exist,
/// they are equal, so the ranks of the first copy send; if the ranks of a tensor group hold the same elements, the
/// first of them sends.
slice spoken_for(const rank_slices& of_rank, uint32_t q) {
  const bool speaks = of_rank.replica() == 0 && (of_rank.tensor() == 0 || of_rank.layout().is_cut(q));
  return speaks ? of_rank.of(q) : slice{};
}

uint64_t in_set(const placement& x, const slice& s, uint32_t) { return x.offset + s.first; }

}  // namespace

collective_pieces::collective_pieces(const job_layout& l) : l_(l) {
  const uint32_t ranks = l.options.ranks();
  offsets_.reserve(ranks);
  slices_.reserve(ranks);
  for (uint32_t r = 0; r < ranks; ++r) offsets_.push_back(offsets_of(slices_.emplace_back(l, r)));
}

template <class From, class To>
std::vector<moved_piece> collective_pieces::slices_of(const parameter_set& set, From from, To to) const {
  std::vector<moved_piece> out;
  const auto& members = shards_of(l_, set.pipeline);
  for (const auto& place : set.parameters)
    for (uint32_t k = 0; k < members.size(); ++k) {
      const slice s = slices_[members[k]].of(place.parameter);
      if (s.count > 0) out.push_back({k, from(place, s, members[k]), to(place, s, members[k]), s.count});
    }
  return out;
}

std::vector<moved_piece> collective_pieces::gather(uint32_t set) const {
  if (l_.options.tiers.parameters != tier::nvme)
    return slices_of(
        l_.gather_sets[set],
        [&](const placement& x, const slice&, uint32_t r) { return offsets_[r].shard[x.parameter]; }, in_set);
  std::vector<std::vector<shard_run>> runs(l_.options.ranks());
  for (const uint32_t r : shards_of(l_, l_.gather_sets[set].pipeline)) runs[r] = shard_runs(l_, set, r, offsets_[r]);
  return slices_of(
      l_.gather_sets[set],
      [&](const placement& x, const slice&, uint32_t r) { return in_window(runs[r], offsets_[r].state[x.parameter]); },
      in_set);
}

std::vector<moved_piece> collective_pieces::gather_near(uint32_t set) const {
  std::vector<moved_piece> out;
  const auto& all = l_.gather_sets[set];
  const auto& members = shards_of(l_, all.pipeline);
  for (const auto& place : all.parameters)
    for (uint32_t k = 0; k < l_.options.gathering.near; ++k) {
      const slice s = slices_[members[k]].near(place.parameter);
      if (s.count == 0) continue;
      const uint64_t from = near_place(slices_[members[k]], offsets_[members[k]], set, place.parameter);
      out.push_back({k, from, place.offset + s.first, s.count});
    }
  return out;
}

std::vector<moved_piece> collective_pieces::reduce(uint32_t bucket) const {
  const auto& o = l_.options;
  const auto place = [&](const placement& x, const slice& s, uint32_t r) {
    if (o.reduces_in_place()) return x.offset + s.first;
    if (l_.swaps_gradients()) return offsets_[r].state[x.parameter] - offsets_[r].bucket_begin[bucket];
    return offsets_[r].state[x.parameter] + (o.updates_all() ? s.first : 0);
  };
  return in_replicas(l_, slices_of(l_.buckets[bucket], in_set, place),
                     l_.buckets[bucket].over_tensor ? l_.options.mesh.tensor_ranks() : 1);
}

std::vector<moved_piece> collective_pieces::exchange(const instruction& x) const {
  const group_exchange what = exchange_of(l_, x.subject, x.segment, x.use);
  const uint32_t ranks = what.ranks;
  const uint64_t element = core::size_of(l_.options.types.parameter), given = what.given_at();
  std::vector<moved_piece> out;
  for (uint32_t t = 0; t < ranks; ++t) {
    const uint64_t part = t * what.bytes;
    if (what.op == core::exchange_op::gather || what.op == core::exchange_op::collect)
      out.push_back({t, part, part, what.bytes});
    if (what.op == core::exchange_op::swap) out.push_back({t, given, part, what.bytes});
    if (what.op == core::exchange_op::scatter) out.push_back({t, (given + part) / element, 0, what.bytes / element});
  }
  if (what.op != core::exchange_op::sum) return out;
  // If the sum is exchanged in pieces of rows, the instruction moves only the rows of its piece. The elements are
  // divided among the ranks in any way, because a sum does not depend on the rank that adds it.
  const bool whole = x.repeats == repetition::recompute || what.pieces == 1;
  const slice rows = whole ? slice{0, 1} : what.rows_of(x.piece);
  const uint64_t width = what.bytes / element / (whole ? 1 : what.rows), elements = rows.count * width;
  const uint64_t each = core::round_up(core::div_up(elements, ranks), core::partition_grain);
  for (uint32_t t = 0; t < ranks; ++t) {
    const uint64_t first = std::min(elements, t * each), count = std::min(elements - first, each);
    const uint64_t at = rows.first * width + first;
    if (count > 0) out.push_back({t, at, at, count});
  }
  return out;
}

std::vector<moved_piece> collective_pieces::agree(uint32_t unit) const {
  const uint64_t each = l_.options.compressed.range_bytes(unit);
  std::vector<moved_piece> out;
  for (uint32_t t = 0; t < l_.options.mesh.tensor_ranks(); ++t) out.push_back({t, t * each, t * each, each});
  return out;
}

std::vector<moved_piece> collective_pieces::publish(uint32_t set) const {
  const auto place = [&](const placement& x, const slice& s, uint32_t) {
    return l_.full_offset[x.parameter] + s.first;
  };
  return slices_of(l_.publish_sets[set], place, place);
}

std::vector<moved_piece> collective_pieces::measure() const {
  std::vector<moved_piece> out;
  for (uint32_t q = 0; q < l_.table->parameters.size(); ++q) {
    if (l_.need_of(q) != update_need::parameter_norms || l_.is_copy(q)) continue;
    for (const auto& of_rank : slices_) {
      const slice s = spoken_for(of_rank, q);
      if (s.count == 0) continue;
      const uint64_t at = of_rank.first_block(q), blocks = core::div_up(s.count, core::partition_grain);
      for (uint64_t place : {at, l_.num_blocks + at}) out.push_back({of_rank.rank(), place, place, blocks});
    }
  }
  return out;
}

std::vector<moved_piece> collective_pieces::collect(uint32_t set) const {
  const parameter_set& all = l_.matrix_sets[set];
  const auto& members = shards_of(l_, all.pipeline);
  std::vector<moved_piece> out;
  for (const auto& x : all.parameters)
    for (uint32_t t = 0; t < shares_of(l_, x.parameter); ++t)
      for (uint32_t k = 0; k < members.size(); ++k) {
        const slice s = slices_[members[k]].of(x.parameter);
        const uint64_t at = matrix_place(l_, all, x.parameter, t) + s.first;
        if (s.count > 0) out.push_back({k * l_.options.mesh.tensor_ranks() + t, at, at, s.count});
      }
  return out;
}

std::vector<moved_piece> collective_pieces::spread(uint32_t set) const {
  std::vector<moved_piece> out;
  for (const auto& x : l_.matrix_sets[set].parameters)
    for (uint32_t t = 0; t < shares_of(l_, x.parameter); ++t) {
      const uint64_t at = matrix_place(l_, l_.matrix_sets[set], x.parameter, t);
      out.push_back({l_.matrix_owner[x.parameter], at, at, l_.table->parameters[x.parameter].numel()});
    }
  return out;
}

std::vector<moved_piece> collective_pieces::tie(uint32_t exchange, uint32_t column) const {
  std::vector<moved_piece> out;
  const tie_exchange& e = l_.exchanges[exchange];
  const uint32_t columns = l_.options.ranks() / l_.options.mesh.degree(core::axis::pipeline);
  for (uint32_t side = 0; side < 2; ++side) {
    if (e.gives[side] == none) continue;
    const slice s = slices_[e.pipeline[side] * columns + column].state(e.gives[side]);
    if (s.count > 0) out.push_back({side, 0, received_place(l_, e.gives[side], e.pipeline[1 - side]), s.count});
  }
  return out;
}

std::vector<moved_piece> collective_pieces::vote() const {
  std::vector<moved_piece> out;
  for (uint32_t q = 0; q < l_.table->parameters.size() && l_.num_blocks > 0; ++q) {
    if (blocks_of(l_, q) == 0) continue;
    for (const auto& of_rank : slices_) {
      const slice s = spoken_for(of_rank, q);
      if (s.count == 0) continue;
      const uint64_t at = of_rank.first_block(q);
      out.push_back({of_rank.rank(), at, at, core::div_up(s.count, core::partition_grain)});
    }
  }
  // The ranks that compute the model's last stage send the losses.
  for (const uint32_t r : l_.communicators[data_communicator(l_, pipeline_of_stage(l_, num_stages(l_) - 1))].members) {
    const uint64_t at = loss_offset(l_, l_.options.mesh.data_at(r), 0);
    out.push_back({r, at, at, l_.options.accumulation});
  }
  // The ranks that compute calibrated layer `k` send the range (two numbers) of its inputs.
  for (uint64_t k = 0; k < calibrated(l_); ++k) {
    const uint32_t pipeline = pipeline_of_unit(l_, l_.table->layers[l_.options.compressed.calibrated[k]].unit);
    for (uint32_t t = 0; t < l_.options.mesh.tensor_ranks(); ++t)
      for (const uint32_t r : l_.communicators[data_communicator(l_, pipeline, t)].members) {
        const uint64_t at = range_offset(l_, r, k);
        out.push_back({r, at, at, 2});
      }
  }
  return out;
}

// Returns one piece, all bytes of the slot, sent by the member that computed them.
std::vector<moved_piece> collective_pieces::transfer(const instruction& x) const {
  const uint32_t later = later_stage(l_, x), from = x.use == use::forward ? later - 1 : later;
  const auto& members = l_.communicators[x.communicator].members;
  const uint32_t owner = l_.options.mesh.pipeline_at(members.front()) == pipeline_of_stage(l_, from) ? 0 : 1;
  return {{owner, 0, 0, x.moved_bytes}};
}

std::vector<moved_piece> collective_pieces::of(const instruction& x) const {
  switch (x.kind) {
    case kind::send:
    case kind::receive:
      return transfer(x);
    case kind::exchange:
      return exchange(x);
    case kind::agree:
      return agree(x.subject);
    case kind::gather:
      return x.near ? gather_near(x.subject) : gather(x.subject);
    case kind::reduce:
      return reduce(x.subject);
    case kind::publish:
      return publish(x.subject);
    case kind::tie:
      return tie(x.subject, l_.communicators[x.communicator].members.front() %
                                (l_.options.ranks() / l_.options.mesh.degree(core::axis::pipeline)));
    case kind::vote:
      return vote();
    case kind::measure:
      return measure();
    case kind::collect:
      return collect(x.subject);
    case kind::spread:
      return spread(x.subject);
    default:
      return {};
  }
}

}  // namespace troupe::plan
