#include "actors/saving/save_content.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "formats/source/shard_header.hpp"
#include "plan/layout/saves.hpp"

namespace troupe::actors {
namespace {

static_assert(plan::save_grain_bytes == formats::piece_alignment_bytes);
static_assert(plan::save_grain_bytes == formats::shard_header_bytes);
static_assert(plan::save_grain_bytes == storage::write_alignment_bytes);

formats::tensor_kind kind_of(uint32_t part) {
  if (part == plan::saved_weights) return formats::tensor_kind::master;
  return part == plan::saved_frozen ? formats::tensor_kind::frozen : formats::tensor_kind::moment;
}

}  // namespace

uint64_t save_content::file_bytes(uint32_t rank) const {
  uint64_t n = formats::shard_header_bytes;
  for (uint32_t b = 0; b < blocks(rank).size(); ++b)
    if (takes(rank, b)) n += blocks(rank)[b].bytes;
  return n;
}

core::result<void> save_content::check(const part_result& part) const {
  const auto wrong = [&](const std::string& of, uint64_t wanted, uint64_t got) {
    return core::fail(core::error_kind::mismatch,
                      fmt::format("the save's part of rank {}: wanted {} {}, got {}", part.rank, wanted, of, got));
  };
  const auto& all = blocks(part.rank);
  if (part.file_bytes != file_bytes(part.rank)) return wrong("bytes", file_bytes(part.rank), part.file_bytes);
  if (part.digests.size() != all.size()) return wrong("blocks", all.size(), part.digests.size());
  for (uint32_t b = 0; b < all.size(); ++b) {
    const size_t wanted = takes(part.rank, b) ? all[b].pieces.size() : 0;
    if (part.digests[b].size() != wanted)
      return wrong(fmt::format("digests of block {}", b), wanted, part.digests[b].size());
  }
  return {};
}

checkpoint::manifest save_content::manifest_of(const checkpoint::run_state& run,
                                               std::span<const part_result> parts) const {
  checkpoint::manifest m;
  m.run = run;
  std::map<std::tuple<uint32_t, uint32_t>, size_t> place;  // index in `m.tensors`, by parameter and part
  for (uint32_t r = 0; r < plans_.size(); ++r) {
    const auto& p = *plans_[r];
    m.files.push_back({formats::shard_file_name(r), parts[r].file_bytes});
    for (uint32_t b = 0; b < p.snapshots.size(); ++b) {
      if (!takes(r, b)) continue;
      const auto& block = p.snapshots[b];
      for (size_t i = 0; i < block.pieces.size(); ++i) {
        const auto& x = block.pieces[i];
        const auto [at, fresh] = place.try_emplace({x.parameter, x.part}, m.tensors.size());
        if (fresh) {
          const auto& table = tensor_.whole != nullptr ? *tensor_.whole : p.table();
          const auto& parameter = table.parameters[x.parameter];
          formats::tensor_entry t{
              parameter.name,     kind_of(x.part), {}, plan::saved_type(*p.layout, x.parameter), parameter.shape, {},
              cut_of(x.parameter)};
          if (t.kind == formats::tensor_kind::moment)
            t.moment = job::moment_name(*groups_, x.parameter, x.part - plan::saved_moment);
          m.tensors.push_back(std::move(t));
        }
        add_piece(m.tensors[at->second], parts[r], b, i);
      }
    }
  }
  return m;
}

void save_content::add_piece(formats::tensor_entry& to, const part_result& part, uint32_t block, size_t piece) const {
  const auto& p = *plans_[part.rank];
  const auto& x = p.snapshots[block].pieces[piece];
  const uint64_t offset = p.snapshots[block].file_offset + x.offset;
  const auto& digest = part.digests[block][piece];
  if (!to.cut.cuts()) {
    to.pieces.push_back({part.rank, x.range.first, x.range.count, offset, digest});
    return;
  }
  const auto own = own_of(part.rank, x);
  if (own.count > 0)
    to.pieces.push_back({part.rank, own.first, own.count, offset, digest, p.options().mesh.tensor_at(part.rank)});
}

core::parameter_cut save_content::cut_of(uint32_t parameter) const {
  return tensor_.cut.parameters.empty() ? core::parameter_cut() : tensor_.cut.parameters[parameter];
}

save_content::own_elements save_content::own_of(uint32_t rank, const plan::saved_piece& x) const {
  const auto cut = cut_of(x.parameter);
  if (!cut.cuts()) return {x.range.first, x.range.count, {{x.range.first, x.range.first, x.range.count}}};
  const auto& shape = tensor_.whole->parameters[x.parameter].shape;
  const uint32_t coordinate = plans_[rank]->options().mesh.tensor_at(rank);
  own_elements out;
  out.runs = core::tp_slices(shape, cut, coordinate).runs(x.range.first, x.range.count);
  std::erase_if(out.runs, [](const core::tp_run& run) { return run.is_padding(); });
  if (out.runs.empty()) return out;
  out.first = core::tp_slices(shape, cut, coordinate, core::tp_room::own).before(out.runs.front().whole);
  for (const auto& run : out.runs) out.count += run.count;
  return out;
}

}  // namespace troupe::actors
