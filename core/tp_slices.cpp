#include "core/tp_slices.hpp"

#include <algorithm>
#include <numeric>

#include "core/tensor_view.hpp"

namespace troupe::core {
namespace {

void append(std::vector<tp_run>& to, const tp_run& run) {
  if (!to.empty()) {
    tp_run& last = to.back();
    const bool behind =
        run.is_padding() ? last.is_padding() : !last.is_padding() && last.whole + last.count == run.whole;
    if (behind && last.local + last.count == run.local) {
      last.count += run.count;
      return;
    }
  }
  to.push_back(run);
}

}  // namespace

std::vector<tp_common> common_to(const std::vector<tp_run>& first, const std::vector<tp_run>& second) {
  std::vector<tp_common> out;
  auto a = first.begin();
  auto b = second.begin();
  while (a != first.end() && b != second.end()) {
    if (a->is_padding()) {
      ++a;
      continue;
    }
    if (b->is_padding()) {
      ++b;
      continue;
    }
    const uint64_t from = std::max(a->whole, b->whole), a_end = a->whole + a->count, b_end = b->whole + b->count;
    if (const uint64_t to = std::min(a_end, b_end); from < to) {
      const tp_common here{a->local + from - a->whole, b->local + from - b->whole, to - from};
      if (!out.empty() && out.back().first + out.back().count == here.first &&
          out.back().second + out.back().count == here.second)
        out.back().count += here.count;
      else
        out.push_back(here);
    }
    if (a_end <= b_end) ++a;
    if (b_end <= a_end) ++b;
  }
  return out;
}

tp_slices::tp_slices(const std::vector<int64_t>& shape, const parameter_cut& cut, uint32_t coordinate, tp_room room) {
  if (!cut.cuts()) {
    local_row_ = whole_row_ = own_row_ = numel_of(shape);
    parts_.push_back({0, 0, local_row_, local_row_});
    return;
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d < cut.dimension) outer_ *= static_cast<uint64_t>(shape[d]);
    if (d > cut.dimension) inner_ *= static_cast<uint64_t>(shape[d]);
  }
  local_row_ = whole_row_ = own_row_ = 0;
  for (const tp_widths& widths : cut.parts) {
    const uint64_t before = std::accumulate(widths.begin(), widths.begin() + coordinate, uint64_t{0});
    const uint64_t own = widths[coordinate] * inner_;
    parts_.push_back(
        {local_row_, whole_row_ + before * inner_, own, room == tp_room::own ? own : widest_of(widths) * inner_});
    local_row_ += parts_.back().room;
    whole_row_ += sum_of(widths) * inner_;
    own_row_ += parts_.back().own;
  }
}

std::vector<tp_run> tp_slices::runs(uint64_t first, uint64_t count) const {
  std::vector<tp_run> out;
  const uint64_t end = std::min(first + count, elements());
  while (first < end) {
    const uint64_t row = first / local_row_, at = first % local_row_;
    const auto behind = std::ranges::upper_bound(parts_, at, {}, &part::local);
    const part& here = *std::prev(behind);
    const uint64_t inside = at - here.local;
    const bool own = inside < here.own;
    const uint64_t n = std::min(end - first, (own ? here.own : here.room) - inside);
    append(out, {first, own ? row * whole_row_ + here.whole + inside : tp_run::padding, n});
    first += n;
  }
  return out;
}

uint64_t tp_slices::before(uint64_t element) const {
  if (whole_row_ == 0) return 0;
  const uint64_t row = element / whole_row_, at = element % whole_row_;
  for (const part& p : parts_) {
    if (at <= p.whole) return row * local_row_ + p.local;
    if (at < p.whole + p.own) return row * local_row_ + p.local + (at - p.whole);
  }
  return (row + 1) * local_row_;
}

}  // namespace troupe::core
