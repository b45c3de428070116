#include "plan/layout/layout.hpp"

#include <algorithm>

#include "core/math.hpp"

namespace troupe::plan {
namespace {

// 64 bytes of the narrowest element (2 bytes): one layout serves every dtype.
constexpr uint64_t grain = core::parameter_alignment_bytes / 2;

template <class To, class From>
std::vector<moved_piece> slices_of(const step_plan& p, const parameter_set& set, From from, To to) {
  std::vector<moved_piece> out;
  for (const auto& place : set.parameters)
    for (uint32_t r = 0; r < p.options.ranks; ++r) {
      const slice& s = p.partition.of(place.parameter, r);
      if (s.count > 0) out.push_back({r, from(place, s, r), to(place, s, r), s.count});
    }
  return out;
}

}  // namespace

uint64_t offset_in(const parameter_set& set, uint32_t parameter) {
  const auto it = std::find_if(set.parameters.begin(), set.parameters.end(),
                               [&](const placement& x) { return x.parameter == parameter; });
  return it->offset;
}

parameter_set lay_out(const core::model_table& table, const std::vector<uint32_t>& parameters, std::string name) {
  parameter_set out;
  out.name = std::move(name);
  for (uint32_t q : parameters) {
    out.parameters.push_back({q, out.elements});
    out.elements += core::round_up(table.parameters[q].numel(), grain);
    out.numel += table.parameters[q].numel();
  }
  return out;
}

std::vector<moved_piece> gather_pieces(const step_plan& p, uint32_t set) {
  if (p.options.tiers.parameters == tier::nvme) {
    std::vector<std::vector<shard_run>> runs;
    for (uint32_t r = 0; r < p.options.ranks; ++r) runs.push_back(shard_runs(p, set, r));
    return slices_of(
        p, p.gather_sets[set],
        [&](const placement& x, const slice&, uint32_t r) {
          return in_window(runs[r], p.state_offset[r][x.parameter]);
        },
        [](const placement& x, const slice& s, uint32_t) { return x.offset + s.first; });
  }
  return slices_of(
      p, p.gather_sets[set],
      [&](const placement& x, const slice&, uint32_t r) { return p.shard_offset[r][x.parameter]; },
      [](const placement& x, const slice& s, uint32_t) { return x.offset + s.first; });
}

std::vector<moved_piece> reduce_pieces(const step_plan& p, uint32_t bucket) {
  return slices_of(
      p, p.buckets[bucket], [](const placement& x, const slice& s, uint32_t) { return x.offset + s.first; },
      [&](const placement& x, const slice& s, uint32_t r) {
        if (p.options.buckets_stay()) return x.offset + s.first;
        if (p.swaps_gradients()) return p.state_offset[r][x.parameter] - p.bucket_begin[r][bucket];
        return p.state_offset[r][x.parameter] + (p.options.updates_all() ? s.first : 0);
      });
}

std::vector<moved_piece> publish_pieces(const step_plan& p, uint32_t set) {
  const auto place = [&](const placement& x, const slice& s, uint32_t) { return p.full_offset[x.parameter] + s.first; };
  return slices_of(p, p.publish_sets[set], place, place);
}

std::vector<moved_piece> measure_pieces(const step_plan& p) {
  std::vector<moved_piece> out;
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q)
    for (uint32_t r = 0; r < p.options.ranks && p.need_of(q) == update_need::parameter_norms; ++r) {
      const slice& s = p.partition.of(q, r);
      if (s.count == 0) continue;
      const uint64_t at = p.block_offset[q] + s.first / core::partition_grain;
      const uint64_t blocks = core::div_up(s.count, core::partition_grain);
      for (uint64_t place : {at, p.num_blocks + at}) out.push_back({r, place, place, blocks});
    }
  return out;
}

std::vector<moved_piece> collect_pieces(const step_plan& p, uint32_t set) {
  const auto place = [](const placement& x, const slice& s, uint32_t) { return x.offset + s.first; };
  return slices_of(p, p.matrix_sets[set], place, place);
}

std::vector<moved_piece> spread_pieces(const step_plan& p, uint32_t set) {
  std::vector<moved_piece> out;
  for (const auto& x : p.matrix_sets[set].parameters)
    out.push_back({p.matrix_owner[x.parameter], x.offset, x.offset, p.table->parameters[x.parameter].numel()});
  return out;
}

std::vector<moved_piece> vote_pieces(const step_plan& p) {
  std::vector<moved_piece> out;
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q)
    for (uint32_t r = 0; r < p.options.ranks && p.trains(q); ++r) {
      const slice& s = p.partition.of(q, r);
      if (s.count == 0 || p.num_blocks == 0) continue;
      const uint64_t at = p.block_offset[q] + s.first / core::partition_grain;
      out.push_back({r, at, at, core::div_up(s.count, core::partition_grain)});
    }
  for (uint32_t r = 0; r < p.options.ranks; ++r)
    out.push_back({r, p.loss_offset(r, 0), p.loss_offset(r, 0), p.options.accumulation});
  return out;
}

gradient_place reduced_gradient(const step_plan& p, uint32_t parameter, uint64_t first) {
  if (p.options.buckets_stay()) return {true, offset_in(p.buckets[p.bucket_of[parameter]], parameter) + first};
  const uint64_t place = p.state_offset[p.rank][parameter] + first - p.state_slice(parameter, p.rank).first;
  return {false, p.swaps_gradients() ? place - p.bucket_begin[p.rank][p.bucket_of[parameter]] : place};
}

}  // namespace troupe::plan
