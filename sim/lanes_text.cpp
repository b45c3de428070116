#include "sim/lanes_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/text.hpp"

namespace troupe::sim {
namespace {

constexpr int64_t bar_columns = 48;
constexpr size_t names_max = 6;

/// Returns the end of an instruction; `until_ns` if it has not ended.
int64_t end_or(const span& s, int64_t until_ns) { return s.end_ns == history::never ? until_ns : s.end_ns; }

/// Returns a bar of the time between two moments, with `#` where one of the spans works and `.` elsewhere.
std::string bar(const std::vector<const span*>& spans, int64_t from_ns, int64_t to_ns) {
  std::string out(static_cast<size_t>(bar_columns), '.');
  const double column_ns = std::max(1.0, double(to_ns - from_ns) / double(bar_columns));
  const auto column = [&](int64_t ns) {
    return std::clamp(static_cast<int64_t>(double(ns - from_ns) / column_ns), int64_t{0}, bar_columns - 1);
  };
  for (const span* s : spans)
    for (int64_t c = column(s->moving_ns); c <= column(end_or(*s, to_ns)); ++c) out[static_cast<size_t>(c)] = '#';
  return out;
}

}  // namespace

std::string time_text(const history& h, int64_t ns) {
  const int64_t began_ns = h.steps.empty() ? 0 : h.steps.front().began_ns;
  return core::text_of("%.6f ms", double(ns - began_ns) / 1e6);
}

std::string lanes_text(const history& h, uint32_t rank, int64_t from_ns, int64_t to_ns) {
  std::string out = fmt::format("\n  rank {} from {} to {}:", rank, time_text(h, from_ns), time_text(h, to_ns));
  for (uint32_t l = 0; l < plan::num_lanes; ++l) {
    std::vector<const span*> here;
    for (const span& s : h.spans)
      if (s.rank == rank && static_cast<uint32_t>(s.lane) == l && s.start_ns <= to_ns && end_or(s, to_ns) >= from_ns)
        here.push_back(&s);
    if (here.empty()) continue;
    out += fmt::format("\n    {:<8}|{}|", plan::name_of(static_cast<plan::lane>(l)), bar(here, from_ns, to_ns));
    for (size_t i = 0; i < std::min(here.size(), names_max); ++i) {
      const std::string end = here[i]->end_ns == history::never ? "never ended" : time_text(h, here[i]->end_ns);
      out += fmt::format("\n      {}: {} to {}", h.names[here[i]->name], time_text(h, here[i]->start_ns), end);
    }
    if (here.size() > names_max) out += fmt::format("\n      and {} more", here.size() - names_max);
  }
  return out;
}

std::string replay_text(const history& h) {
  std::string out = fmt::format("\n  seed {}", h.seed);
  if (!h.replay.empty()) out += ", replay: " + h.replay;
  return out;
}

}  // namespace troupe::sim
