// Owns the linear layout: the sequence of a rank's states in which its swap file stores them. A parameter smaller than
// a page never crosses a page boundary, larger ones begin at one. A sub-group may therefore end at every page boundary,
// and every transfer is whole pages.
#include <algorithm>

#include "core/math.hpp"
#include "plan/layout/rank_slices.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {
namespace {

// Returns the elements of parameter `q` that are in a rank's linear layout (its states in one sequence). Elements of
// frozen parameters are in it only if slices of parameters are swapped.
slice held(const rank_slices& of_rank, uint32_t q) {
  const job_layout& l = of_rank.layout();
  if (l.trains(q)) return of_rank.state(q);
  return l.options.tiers.parameters == tier::nvme ? of_rank.of(q) : slice{};
}

class line {
 public:
  explicit line(uint64_t page) : page_(page) {}
  uint64_t place(uint64_t count) {
    const uint64_t left = page_ - at_ % page_;
    if (count > left && left < page_) next_page();
    const uint64_t out = at_;
    at_ += core::round_up(count, core::parameter_grain);
    return out;
  }
  void next_page() { at_ = core::round_up(at_, page_); }
  [[nodiscard]] uint64_t at() const { return at_; }

 private:
  uint64_t page_, at_ = 0;
};

// Divides elements [begin, end) of the linear layout, the states of parameters `members`, into swap blocks of about
// equal size; each has at most update_options::sub_group elements or one page.
void cut(rank_plan& p, uint64_t begin, uint64_t end, const std::vector<uint32_t>& members, bool frozen) {
  const uint64_t page = page_elements(*p.layout);
  const uint64_t most = std::max(page, p.options().updates.sub_group / page * page);
  const uint64_t blocks = core::div_up(end - begin, most);
  if (blocks == 0) return;
  const rank_slices mine(*p.layout, p.rank);
  const uint64_t each = core::round_up(core::div_up(end - begin, blocks), page);
  for (uint64_t at = begin; at < end; at += each) {
    swap_block b;
    b.first = at;
    b.elements = std::min(each, end - at);
    b.frozen = frozen;
    for (uint32_t q : members) {
      const slice own = held(mine, q);
      const uint64_t place = p.offsets.state[q];
      const uint64_t from = std::max(place, at), to = std::min(place + own.count, at + b.elements);
      if (from < to) b.pieces.push_back({q, {own.first + from - place, to - from}, from});
    }
    p.blocks.push_back(std::move(b));
  }
}

void choose_parts(rank_plan& p) {
  const job_layout& l = *p.layout;
  const auto& t = l.options.tiers;
  uint32_t moments = 0;
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q)
    if (l.trains(q)) moments = std::max(moments, l.options.update_of(q).moments);
  const auto groups = static_cast<uint64_t>(
      std::count_if(p.blocks.begin(), p.blocks.end(), [](const swap_block& b) { return !b.frozen; }));
  // The states of the first `stay` sub-groups remain in memory; the states of the others are offloaded.
  const auto stay = static_cast<uint64_t>((1 - t.ratio) * double(groups));
  const bool apart = !l.options.master_is_parameter();
  const state_part weights = weights_part(l);
  for (uint64_t g = 0; g < p.blocks.size(); ++g) {
    auto& b = p.blocks[g];
    if (t.parameters == tier::nvme) b.swapped |= bit(weights);
    if (!b.frozen && l.swaps_gradients()) b.swapped |= bit(state_part::gradient);
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
    p.swap_file_bytes += file_bytes(l, b);
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

uint64_t page_elements(const job_layout& l) {
  const auto& o = l.options;
  const uint64_t narrowest =
      std::min({core::size_of(o.types.parameter), core::size_of(o.types.accumulation), core::size_of(o.master())});
  return std::max(swap_page_bytes / narrowest, core::partition_grain);
}

core::dtype type_of(const job_layout& l, state_part x) {
  if (x == state_part::gradient) return l.options.types.accumulation;
  return x == state_part::copy ? l.options.types.parameter : l.options.master();
}

state_part weights_part(const job_layout& l) {
  return l.options.master_is_parameter() ? state_part::master : state_part::copy;
}

uint64_t linear_place(const rank_plan& p, uint32_t q, uint64_t first) {
  return p.offsets.state[q] + first - held(rank_slices(*p.layout, p.rank), q).first;
}

const swap_block& block_at(const rank_plan& p, uint64_t linear) {
  const auto after = std::upper_bound(p.blocks.begin(), p.blocks.end(), linear,
                                      [](uint64_t at, const swap_block& b) { return at < b.first; });
  return *std::prev(after);
}

uint64_t part_offset(const job_layout& l, const swap_block& b, state_part x) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < static_cast<uint32_t>(x); ++k)
    if (const auto part = static_cast<state_part>(k); b.holds(part))
      bytes += b.elements * core::size_of(type_of(l, part));
  return bytes;
}

uint64_t extent_bytes(const job_layout& l, const swap_block& b) {
  const uint64_t before = part_offset(l, b, state_part::copy);
  return before + (b.holds(state_part::copy) ? b.elements * core::size_of(l.options.types.parameter) : 0);
}

uint64_t second_place(const job_layout& l, const swap_block& b) {
  return l.options.tiers.two_places && !b.frozen ? extent_bytes(l, b) - part_offset(l, b, state_part::master) : 0;
}

uint64_t file_bytes(const job_layout& l, const swap_block& b) { return extent_bytes(l, b) + second_place(l, b); }

file_range range_of(const job_layout& l, const swap_block& b, state_part x, uint64_t linear, uint64_t count,
                    uint32_t place) {
  const uint64_t bytes = core::size_of(type_of(l, x));
  const uint64_t moved = place == 0 || x == state_part::gradient ? 0 : second_place(l, b);
  return {b.file_offset + part_offset(l, b, x) + (linear - b.first) * bytes + moved, count * bytes};
}

file_range states_read(const job_layout& l, const swap_block& b, uint32_t place) {
  const uint64_t from = part_offset(l, b, state_part::master), to = part_offset(l, b, state_part::copy);
  return {b.file_offset + from + (place == 0 ? 0 : second_place(l, b)), to - from};
}

file_range states_written(const job_layout& l, const swap_block& b, uint32_t place) {
  const uint64_t from = part_offset(l, b, state_part::master);
  return {b.file_offset + from + (place == 0 ? 0 : second_place(l, b)), extent_bytes(l, b) - from};
}

std::vector<shard_run> shard_runs(const job_layout& l, uint32_t set, uint32_t rank, const rank_offsets& at) {
  const uint64_t page = page_elements(l);
  const rank_slices of_rank(l, rank);
  std::vector<shard_run> out;
  for (const auto& x : l.gather_sets[set].parameters) {
    const slice own = held(of_rank, x.parameter);
    if (own.count == 0) continue;
    const uint64_t place = at.state[x.parameter];
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

std::vector<shard_run> shard_runs(const rank_plan& p, uint32_t set) {
  return shard_runs(*p.layout, set, p.rank, p.offsets);
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

void lay_out_linear(const job_layout& l, uint32_t rank, rank_offsets& at) {
  const rank_slices mine(l, rank);
  line all(page_elements(l));
  at.state.assign(l.table->parameters.size(), 0);
  for (const auto& run : l.state_runs) {
    all.next_page();
    at.bucket_begin.push_back(all.at());
    for (const auto& x : run.parameters) at.state[x.parameter] = all.place(held(mine, x.parameter).count);
  }
  all.next_page();
  at.bucket_begin.push_back(all.at());
  for (uint32_t q = 0; q < at.state.size(); ++q)
    if (!l.trains(q)) at.state[q] = all.place(held(mine, q).count);
  all.next_page();
  at.state_elements = all.at();
}

void make_swap_blocks(rank_plan& p) {
  const job_layout& l = *p.layout;
  const auto& begins = p.offsets.bucket_begin;
  for (size_t b = 0; b < l.state_runs.size(); ++b) {
    std::vector<uint32_t> members;
    for (const auto& x : l.state_runs[b].parameters) members.push_back(x.parameter);
    cut(p, begins[b], begins[b + 1], members, false);
  }
  std::vector<uint32_t> frozen;
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q)
    if (!l.trains(q)) frozen.push_back(q);
  if (l.options.tiers.parameters == tier::nvme) cut(p, begins.back(), p.offsets.state_elements, frozen, true);
  choose_parts(p);
}

}  // namespace troupe::plan
