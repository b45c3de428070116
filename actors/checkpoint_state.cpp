#include "actors/checkpoint_state.hpp"

#include <map>
#include <tuple>

namespace troupe::actors {
namespace {

using checkpoint::tensor_kind;

/// `range` as a piece of the rank's states.
plan::owned_piece owned(const plan::step_plan& p, uint32_t q, plan::slice range) {
  return {q, range, p.state_offset[p.rank][q] + range.first - p.state_slice(q, p.rank).first};
}

std::string moment_name(const optimizer_groups& groups, uint32_t q, uint32_t k) {
  return std::string(kernels::moment_names(groups.groups[groups.group_of[q]].options)[k]);
}

}  // namespace

std::vector<saved_slice> slices_of(const rank_memory& memory, const optimizer_groups& groups) {
  const auto& p = memory.plan();
  std::vector<saved_slice> out;
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q) {
    const auto& parameter = p.table->parameters[q];
    const plan::slice range = p.partition.of(q, p.rank);
    if (range.count == 0) continue;
    const auto add = [&](tensor_kind kind, std::string moment, core::dtype type, const std::byte* at) {
      out.push_back({parameter.name, kind, std::move(moment), type, parameter.shape, range,
                     std::span(at, range.count * core::size_of(type))});
    };
    if (!parameter.trainable) {
      add(tensor_kind::frozen, {}, p.options.parameter, memory.parameter(q, range.first));
      continue;
    }
    const auto piece = owned(p, q, range);
    add(tensor_kind::master, {}, p.options.master(), memory.master(piece));
    for (uint32_t k = 0; k < p.options.update_of(q).moments; ++k)
      add(tensor_kind::moment, moment_name(groups, q, k), p.options.master(), memory.moment(piece, k));
  }
  return out;
}

core::result<std::filesystem::path> write_checkpoint(const std::filesystem::path& root,
                                                     const std::vector<std::shared_ptr<rank_memory>>& memory,
                                                     const optimizer_groups& groups, checkpoint::run_state run) {
  std::vector<std::vector<saved_slice>> all;
  uint64_t needed_bytes = 0;
  for (const auto& m : memory) {
    all.push_back(slices_of(*m, groups));
    std::vector<uint64_t> bytes;
    for (const auto& s : all.back()) bytes.push_back(s.bytes.size());
    needed_bytes += checkpoint::shard_bytes_for(bytes);
  }
  auto save = checkpoint::checkpoint_save::begin(checkpoint::real_files(), root, run.step, needed_bytes);
  if (!save) return core::fail(save.error());
  checkpoint::manifest m;
  m.run = std::move(run);
  std::map<std::tuple<std::string, tensor_kind, std::string>, size_t> place;
  for (uint32_t r = 0; r < all.size(); ++r) {
    auto shard = save->create_shard(r);
    if (!shard) return core::fail(shard.error());
    for (const auto& s : all[r]) {
      auto written = shard->append(s.bytes);
      if (!written) return core::fail(written.error());
      const auto [at, fresh] = place.try_emplace({s.name, s.kind, s.moment}, m.tensors.size());
      if (fresh) m.tensors.push_back({s.name, s.kind, s.moment, s.type, s.shape, {}});
      m.tensors[at->second].pieces.push_back({r, s.range.first, s.range.count, written->offset_bytes, written->digest});
    }
    auto file = shard->finish();
    if (!file) return core::fail(file.error());
    m.files.push_back(std::move(*file));
  }
  return save->commit(std::move(m));
}

}  // namespace troupe::actors
