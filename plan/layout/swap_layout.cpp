// One linear layout of states per rank. A parameter smaller than a page never lies across two, larger ones begin at
// one: so every page boundary is a place where a sub-group may end, and every transfer is whole pages.
#include <algorithm>

#include "core/math.hpp"
#include "plan/step_plan.hpp"

namespace troupe::plan {
namespace {

constexpr uint64_t grain = core::parameter_alignment_bytes / 2;  // of elements of at least 2 bytes

// Frozen parameters have places only where their slices are swapped.
slice held(const step_plan& p, uint32_t q, uint32_t rank) {
  if (p.trains(q)) return p.state_slice(q, rank);
  return p.options.tiers.parameters == tier::nvme ? p.partition.of(q, rank) : slice{};
}

class line {
 public:
  explicit line(uint64_t page) : page_(page) {}
  uint64_t place(uint64_t count) {
    const uint64_t left = page_ - at_ % page_;
    if (count > left && left < page_) next_page();
    const uint64_t out = at_;
    at_ += core::round_up(count, grain);
    return out;
  }
  void next_page() { at_ = core::round_up(at_, page_); }
  [[nodiscard]] uint64_t at() const { return at_; }

 private:
  uint64_t page_, at_ = 0;
};

void lay_out_rank(step_plan& p, uint32_t r) {
  line all(page_elements(p));
  auto& offsets = p.state_offset[r];
  offsets.assign(p.table->parameters.size(), 0);
  auto& begins = p.bucket_begin.emplace_back();
  for (const auto& bucket : p.buckets) {
    all.next_page();
    begins.push_back(all.at());
    for (const auto& x : bucket.parameters) offsets[x.parameter] = all.place(held(p, x.parameter, r).count);
  }
  all.next_page();
  begins.push_back(all.at());
  for (uint32_t q = 0; q < offsets.size(); ++q)
    if (!p.trains(q)) offsets[q] = all.place(held(p, q, r).count);
  all.next_page();
  p.state_elements[r] = all.at();
}

// Linear runs [begin, end) cut into about equal blocks of at most `most` elements.
void cut(step_plan& p, uint64_t begin, uint64_t end, const std::vector<uint32_t>& members, bool frozen) {
  const uint64_t page = page_elements(p);
  const uint64_t most = std::max(page, p.options.sub_group / page * page);
  const uint64_t blocks = core::div_up(end - begin, most);
  if (blocks == 0) return;
  const uint64_t each = core::round_up(core::div_up(end - begin, blocks), page);
  for (uint64_t at = begin; at < end; at += each) {
    swap_block b;
    b.first = at;
    b.elements = std::min(each, end - at);
    b.frozen = frozen;
    for (uint32_t q : members) {
      const slice own = held(p, q, p.rank);
      const uint64_t place = p.state_offset[p.rank][q];
      const uint64_t from = std::max(place, at), to = std::min(place + own.count, at + b.elements);
      if (from < to) b.pieces.push_back({q, {own.first + from - place, to - from}, from});
    }
    p.blocks.push_back(std::move(b));
  }
}

void choose_parts(step_plan& p) {
  const auto& t = p.options.tiers;
  uint32_t moments = 0;
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q)
    if (p.trains(q)) moments = std::max(moments, p.options.update_of(q).moments);
  const auto groups = static_cast<uint64_t>(
      std::count_if(p.blocks.begin(), p.blocks.end(), [](const swap_block& b) { return !b.frozen; }));
  // zero.md 7.6: the last ones are offloaded.
  const auto stay = static_cast<uint64_t>((1 - t.ratio) * double(groups));
  const bool apart = !p.options.master_is_parameter();
  const state_part weights = weights_part(p);
  for (uint64_t g = 0; g < p.blocks.size(); ++g) {
    auto& b = p.blocks[g];
    if (t.parameters == tier::nvme) b.swapped |= bit(weights);
    if (!b.frozen && p.swaps_gradients()) b.swapped |= bit(state_part::gradient);
    const bool away = !b.frozen && t.optimizer == tier::nvme && g >= stay;
    if (away && apart) b.swapped |= bit(state_part::master);
    for (uint32_t k = 0; k < moments && away; ++k) b.swapped |= bit(moment_part(k));
    for (uint32_t k = 0; k < num_state_parts && !b.frozen; ++k) {
      const auto part = static_cast<state_part>(k);
      const bool exists =
          part == state_part::gradient || part == state_part::copy ||
          (part == state_part::master ? apart : k < static_cast<uint32_t>(state_part::first_moment) + moments);
      if (!exists || b.holds(part) || part == state_part::copy) continue;
      b.resident[k] = p.resident_elements[k];
      p.resident_elements[k] += b.elements;
    }
    b.file_offset = p.swap_file_bytes;
    p.swap_file_bytes += extent_bytes(p, b);
  }
}

// The first units are read when a step begins, with nothing to hide behind: they stay first.
void choose_cached(step_plan& p) {
  p.cached.assign(p.gather_sets.size(), false);
  if (p.options.tiers.parameters != tier::nvme) return;
  uint64_t left = p.options.tiers.resident_parameters;
  for (uint32_t k = 0; k < p.gather_sets.size(); ++k) {
    uint64_t most = 0;  // the same on all ranks
    for (uint32_t r = 0; r < p.options.ranks; ++r) most = std::max(most, window_elements(shard_runs(p, k, r)));
    if (most > left) break;
    left -= most;
    p.cached[k] = true;
  }
}

}  // namespace

std::string_view name_of(tier t) {
  switch (t) {
    case tier::device:
      return "device";
    case tier::cpu:
      return "cpu";
    case tier::nvme:
      return "nvme";
  }
  return "?";
}

uint64_t page_elements(const step_plan& p) {
  const auto& o = p.options;
  const uint64_t narrowest =
      std::min({core::size_of(o.parameter), core::size_of(o.accumulation_type), core::size_of(o.master())});
  return std::max(swap_page_bytes / narrowest, core::partition_grain);
}

core::dtype type_of(const step_plan& p, state_part x) {
  if (x == state_part::gradient) return p.options.accumulation_type;
  return x == state_part::copy ? p.options.parameter : p.options.master();
}

state_part weights_part(const step_plan& p) {
  return p.options.master_is_parameter() ? state_part::master : state_part::copy;
}

uint64_t linear_place(const step_plan& p, uint32_t q, uint64_t first) {
  return p.state_offset[p.rank][q] + first - held(p, q, p.rank).first;
}

const swap_block& block_at(const step_plan& p, uint64_t linear) {
  const auto after = std::upper_bound(p.blocks.begin(), p.blocks.end(), linear,
                                      [](uint64_t at, const swap_block& b) { return at < b.first; });
  return *std::prev(after);
}

uint64_t part_offset(const step_plan& p, const swap_block& b, state_part x) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < static_cast<uint32_t>(x); ++k)
    if (const auto part = static_cast<state_part>(k); b.holds(part))
      bytes += b.elements * core::size_of(type_of(p, part));
  return bytes;
}

uint64_t extent_bytes(const step_plan& p, const swap_block& b) {
  const uint64_t before = part_offset(p, b, state_part::copy);
  return before + (b.holds(state_part::copy) ? b.elements * core::size_of(p.options.parameter) : 0);
}

file_range range_of(const step_plan& p, const swap_block& b, state_part x, uint64_t linear, uint64_t count) {
  const uint64_t bytes = core::size_of(type_of(p, x));
  return {b.file_offset + part_offset(p, b, x) + (linear - b.first) * bytes, count * bytes};
}

file_range states_read(const step_plan& p, const swap_block& b) {
  const uint64_t from = part_offset(p, b, state_part::master), to = part_offset(p, b, state_part::copy);
  return {b.file_offset + from, to - from};
}

file_range states_written(const step_plan& p, const swap_block& b) {
  const uint64_t from = part_offset(p, b, state_part::master);
  return {b.file_offset + from, extent_bytes(p, b) - from};
}

std::vector<shard_run> shard_runs(const step_plan& p, uint32_t set, uint32_t rank) {
  const uint64_t page = page_elements(p);
  std::vector<shard_run> out;
  for (const auto& x : p.gather_sets[set].parameters) {
    const slice own = held(p, x.parameter, rank);
    if (own.count == 0) continue;
    const uint64_t place = p.state_offset[rank][x.parameter];
    const uint64_t first = place / page * page;
    out.push_back({first, core::round_up(place + own.count, page) - first, 0});
  }
  std::sort(out.begin(), out.end(), [](const shard_run& a, const shard_run& b) { return a.first < b.first; });
  std::vector<shard_run> merged;
  for (const auto& x : out) {
    if (!merged.empty() && x.first <= merged.back().first + merged.back().count)
      merged.back().count = std::max(merged.back().count, x.first + x.count - merged.back().first);
    else
      merged.push_back(x);
  }
  uint64_t slot = 0;
  for (auto& x : merged) slot = (x.slot = slot) + x.count;
  return merged;
}

uint64_t window_elements(const std::vector<shard_run>& runs) {
  return runs.empty() ? 0 : runs.back().slot + runs.back().count;
}

uint64_t in_window(const std::vector<shard_run>& runs, uint64_t linear) {
  const auto after =
      std::upper_bound(runs.begin(), runs.end(), linear, [](uint64_t at, const shard_run& x) { return at < x.first; });
  const auto& run = *std::prev(after);
  return run.slot + linear - run.first;
}

void make_swap_layout(step_plan& p) {
  p.state_elements.assign(p.options.ranks, 0);
  p.bucket_begin.clear();
  for (uint32_t r = 0; r < p.options.ranks; ++r) lay_out_rank(p, r);
  for (size_t b = 0; b < p.buckets.size(); ++b) {
    std::vector<uint32_t> members;
    for (const auto& x : p.buckets[b].parameters) members.push_back(x.parameter);
    cut(p, p.bucket_begin[p.rank][b], p.bucket_begin[p.rank][b + 1], members, false);
  }
  std::vector<uint32_t> frozen;
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q)
    if (!p.trains(q)) frozen.push_back(q);
  if (p.options.tiers.parameters == tier::nvme)
    cut(p, p.bucket_begin[p.rank].back(), p.state_elements[p.rank], frozen, true);
  choose_parts(p);
  choose_cached(p);
}

}  // namespace troupe::plan
