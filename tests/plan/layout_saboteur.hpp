// Breaks the positions of elements in a valid plan: parameter sets, pieces of sub-groups, states, blocks of a
// checkpoint, sizes.
#pragma once

#include "plan/layout/saves.hpp"
#include "tests/plan/memory_saboteur.hpp"

namespace troupe::plan {

/// Changes the positions of elements in one rank's plan. Each change is at one random position, and returns false if
/// the plan has no position for it.
class layout_saboteur : public memory_saboteur {
 public:
  using memory_saboteur::memory_saboteur;

  bool change_set() {
    std::vector<parameter_set*> sets;
    job_layout& l = layout();
    for (auto* kind : {&l.gather_sets, &l.buckets, &l.matrix_sets, &l.publish_sets})
      for (auto& s : *kind)
        if (!s.parameters.empty()) sets.push_back(&s);
    parameter_set& s = *sets[below(sets.size())];
    placement& x = s.parameters[below(s.parameters.size())];
    switch (below(3)) {
      case 0:
        x.parameter = static_cast<uint32_t>((x.parameter + 1) % p_.table().parameters.size());
        break;
      case 1:
        x.offset += 32;
        break;
      default:
        s.parameters.pop_back();
    }
    return p_.table().parameters.size() > 1;
  }
  bool change_layout() {
    const size_t q = below(p_.table().parameters.size());
    job_layout& l = layout();
    switch (below(7)) {
      case 0:
        l.full_offset[q] += 16;
        break;
      case 1:
        return std::exchange(l.full_offset[q], l.full_offset[(q + 1) % l.full_offset.size()]) != l.full_offset[q];
      case 2:
        l.full_elements[0] -= 32;
        break;
      case 3:
        if (l.slice_of(static_cast<uint32_t>(q), p_.rank).count == 0) return false;
        p_.offsets.shard[q] += below(2) == 0 ? 16 : 1'000'000'000;
        break;
      case 4:
        l.block_offset[q] += 1;
        break;
      case 5:
        l.gather_sets[below(l.gather_sets.size())].numel += 1;
        break;
      default:
        if (p_.sub_groups.empty()) return false;
        p_.sub_groups[below(p_.sub_groups.size())].elements += 1;
    }
    return true;
  }
  bool change_piece() {
    if (p_.sub_groups.empty()) return false;
    auto& g = p_.sub_groups[below(p_.sub_groups.size())];
    if (g.pieces.empty()) return false;
    auto& x = g.pieces[below(g.pieces.size())];
    switch (below(4)) {
      case 0:
        x.parameter = static_cast<uint32_t>((x.parameter + 1) % p_.table().parameters.size());
        break;
      case 1:
        x.range.count -= 1;
        break;
      case 2:
        x.state_offset += 32;
        break;
      default:
        x.range.first += 1;
    }
    return p_.table().parameters.size() > 1;
  }
  bool drop_piece() {
    if (p_.sub_groups.empty()) return false;
    auto& g = p_.sub_groups[below(p_.sub_groups.size())];
    if (g.pieces.empty()) return false;
    g.elements -= g.pieces.back().range.count;
    g.pieces.pop_back();
    return true;
  }
  bool change_states() {
    if (p_.sub_groups.empty()) return false;
    const auto q = static_cast<uint32_t>(below(p_.table().parameters.size()));
    switch (below(4)) {
      case 0:
        if (p_.own_states(q).count == 0) return false;
        p_.offsets.state[q] += below(2) == 0 ? 16 : 1'000'000'000;
        break;
      case 1:
        p_.offsets.state_elements /= 2;
        return p_.offsets.state_elements > 0;
      case 2: {
        uint32_t& owner = layout().matrix_owner[q];
        owner = owner == none ? 0 : p_.options().shards();
        break;
      }
      default: {
        auto& g = p_.sub_groups[below(p_.sub_groups.size())];
        g.need = g.need == update_need::elements ? update_need::parameter_norms : update_need::elements;
      }
    }
    return true;
  }
  bool change_moments() {
    const size_t q = below(p_.table().parameters.size()), k = below(max_moments);
    const auto id = static_cast<uint32_t>(q);
    if (k >= p_.options().update_of(id).moments || p_.own_states(id).count == 0) return false;
    p_.moment_offset[k][q] += below(2) == 0 ? 16 : 1'000'000'000;
    return true;
  }
  // Partitions parameters for a wrong number of ranks, or for a wrong parameter size.
  bool cut_elsewhere() {
    core::model_table other = p_.table();
    const bool grows = below(2) == 0;
    const auto q = static_cast<uint32_t>(below(other.parameters.size()));
    if (p_.layout->is_copy(q)) return false;  // a copy must be partitioned like its original
    if (grows) other.parameters[q].shape.push_back(2);
    layout().partition = make_partition(other, p_.options().shards() + (grows ? 0 : 1), p_.options().uneven);
    return true;
  }
  bool change_what_is_saved() {
    if (p_.snapshots.empty()) return false;
    auto& block = p_.snapshots[below(p_.snapshots.size())];
    const size_t at = below(block.pieces.size());
    auto& piece = block.pieces[at];
    switch (below(7)) {
      case 0:
        piece.range.count -= 1;
        break;
      case 1:
        piece.range.first += 1;
        break;
      case 2:
        piece.part += 1;
        break;
      case 3:
        piece.offset += 4096;
        break;
      case 4:
        block.pieces.erase(block.pieces.begin() + static_cast<long>(at));
        break;
      case 5:
        block.frozen = !block.frozen;
        break;
      default:
        block.file_offset += 4096;
    }
    return true;
  }
  bool change_size() {
    switch (below(4)) {
      case 0:
        p_.pool_bytes[below(num_pools)] += 64;
        break;
      case 1:
        p_.memory.gathered += 64;
        break;
      case 2:
        layout().num_blocks += 1;
        break;
      default:
        if (!p_.layout->gathers()) return false;
        p_.peak_live_elements += 1;
    }
    return true;
  }
};

}  // namespace troupe::plan
