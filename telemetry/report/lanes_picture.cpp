#include "telemetry/report/lanes_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "plan/kinds.hpp"
#include "plan/stage_place.hpp"

namespace troupe::telemetry {
namespace {

// Lanes of Troupe in the order in which they are drawn; lanes of other programs follow them.
constexpr std::array<std::string_view, 6> drawn_lanes = {"control", "compute", "fabric", "shard", "writer", "io"};

size_t place_of_lane(std::string_view lane) {
  return static_cast<size_t>(std::ranges::find(drawn_lanes, lane) - drawn_lanes.begin());
}

// Returns the kind of instruction that has the colour of a kind in a trace: itself if Troupe has it, else one that does
// work of the same sort.
std::string_view colour_of_traced(std::string_view kind, work_sort sort) {
  const auto known = std::ranges::find(plan::kind_rows, kind, &plan::kind_row::name);
  if (known != plan::kind_rows.end()) return known->colour.light.empty() ? std::string_view() : known->name;
  switch (sort) {
    case work_sort::loading:
      return "load";
    case work_sort::compute:
      return "forward";
    case work_sort::communication:
      return "gather";
    case work_sort::update:
      return "update";
    case work_sort::saving:
      return "snapshot";
    case work_sort::disk:
      return "swap_in";
    case work_sort::host:
      return "vote";
  }
  return {};
}

// Returns the number of bars if instructions that end within `narrow_ns` of their bar's start are merged into it.
size_t bars_if_merged(const picture_row& r, int64_t narrow_ns) {
  size_t out = 0;
  int64_t start_ns = 0;
  for (const auto& b : r.bars) {
    if (out > 0 && b.end_ns - start_ns < narrow_ns) continue;
    start_ns = b.start_ns;
    ++out;
  }
  return out;
}

void merge_short(picture_row& r, int64_t narrow_ns) {
  std::vector<picture_bar> out;
  for (const auto& b : r.bars) {
    if (out.empty() || b.end_ns - out.back().start_ns >= narrow_ns) {
      out.push_back(b);
      continue;
    }
    out.back().end_ns = std::max(out.back().end_ns, b.end_ns);
    out.back().more += 1 + b.more;
  }
  r.bars = std::move(out);
}

}  // namespace

picture_row& lanes_picture::row(uint32_t rank, const std::string& lane, bool is_predicted) {
  auto& out = rows_[row_key(rank, place_of_lane(lane), lane, is_predicted ? 0 : 1)];
  out.rank = rank;
  out.lane = lane;
  out.is_predicted = is_predicted;
  return out;
}

uint32_t lanes_picture::work(std::string name, const std::string& kind, std::string_view colour, uint64_t bytes) {
  const auto [of, kind_is_new] = index_of_kind_.try_emplace(kind, static_cast<uint32_t>(kinds_.size()));
  if (kind_is_new) kinds_.push_back({kind, std::string(colour)});
  picture_work x{std::move(name), of->second, bytes};
  const auto [at, is_new] = index_of_work_.try_emplace(x, static_cast<uint32_t>(works_.size()));
  if (is_new) works_.push_back(std::move(x));
  return at->second;
}

void lanes_picture::sort_bars() {
  for (auto& [key, r] : rows_) std::ranges::stable_sort(r.bars, {}, &picture_bar::start_ns);
}

void lanes_picture::add(std::span<const rank_spans> ranks, int64_t zero_ns, bool is_predicted) {
  const posted_times posted(ranks);
  for (const auto& r : ranks) {
    const auto& p = *r.plan;
    titles_.try_emplace(p.rank, plan::rank_text(*p.layout, p.rank));
    for (const auto& x : p.instructions) {
      if (r.spans[x.id].start_ns == not_run_ns) continue;
      const interval at = x.sequence == plan::none ? r.spans[x.id] : moving(r, x.id, posted);
      const std::string place = plan::place_text(*p.layout, x), kind(plan::name_of(x.kind));
      const std::string_view colour = plan::row_of(x.kind).colour.light.empty() ? std::string_view() : kind;
      const uint32_t what = work(p.describe(x.id) + (place.empty() ? "" : ", " + place), kind, colour, x.moved_bytes);
      row(p.rank, std::string(plan::name_of(x.lane)), is_predicted)
          .bars.push_back({at.start_ns - zero_ns, at.end_ns - zero_ns, what});
    }
  }
  sort_bars();
}

void lanes_picture::add(const step_graph& step, bool is_predicted) {
  const traced_step& s = step.step();
  const int64_t zero_ns = step.bounds().start_ns;
  for (uint32_t i = 0; i < s.spans.size(); ++i) {
    const auto& x = s.spans[i];
    const std::string& kind = s.kinds[x.kind];
    const uint32_t what = work(s.names[x.name] + (x.stage == no_index ? "" : fmt::format(", stage {}", x.stage)), kind,
                               colour_of_traced(kind, x.sort), x.bytes);
    const int64_t start_ns = x.collective == no_index ? x.start_ns : std::min(step.began_ns(i), x.end_ns);
    row(s.ranks[x.rank], s.lanes[x.lane].name, is_predicted)
        .bars.push_back({start_ns - zero_ns, x.end_ns - zero_ns, what});
  }
  sort_bars();
}

picture_thinning lanes_picture::thin(size_t ranks_max, size_t bars_max) {
  picture_thinning out;
  std::set<uint32_t> all;
  for (const auto& [key, r] : rows_) all.insert(r.rank);
  out.ranks = out.drawn_ranks = all.size();
  if (all.size() > ranks_max) {
    std::set<uint32_t> kept;
    size_t position = 0;
    for (const uint32_t rank : all) {
      if (position * ranks_max / all.size() == kept.size() && kept.size() < ranks_max) kept.insert(rank);
      ++position;
    }
    std::erase_if(rows_, [&](const auto& entry) { return !kept.contains(entry.second.rank); });
    out.drawn_ranks = kept.size();
  }
  for (const auto& [key, r] : rows_)
    for (const auto& b : r.bars) out.instructions += 1 + b.more;
  const auto bars_with = [&](int64_t narrow_ns) {
    size_t n = 0;
    for (const auto& [key, r] : rows_) n += bars_if_merged(r, narrow_ns);
    return n;
  };
  const int64_t end = end_ns();
  int64_t narrow_ns = 0;
  for (out.bars = bars_with(0); out.bars > bars_max && narrow_ns <= end; out.bars = bars_with(narrow_ns))
    narrow_ns = narrow_ns == 0 ? std::max<int64_t>(1, end / 65536) : 2 * narrow_ns;
  if (narrow_ns > 0)
    for (auto& [key, r] : rows_) merge_short(r, narrow_ns);
  out.merged_ns = narrow_ns;
  return out;
}

std::vector<const picture_row*> lanes_picture::rows() const {
  std::vector<const picture_row*> out;
  for (const auto& [key, r] : rows_) out.push_back(&r);
  return out;
}

std::string lanes_picture::title_of(uint32_t rank) const {
  const auto at = titles_.find(rank);
  return at == titles_.end() ? fmt::format("rank {}", rank) : at->second;
}

int64_t lanes_picture::end_ns() const {
  int64_t out = 0;
  for (const auto& [key, r] : rows_)
    for (const auto& b : r.bars) out = std::max(out, b.end_ns);
  return out;
}

size_t lanes_picture::num_ranks() const {
  std::set<uint32_t> all;
  for (const auto& [key, r] : rows_) all.insert(r.rank);
  return all.size();
}

}  // namespace troupe::telemetry
