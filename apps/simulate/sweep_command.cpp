#include "apps/simulate/sweep_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/base/exit_code.hpp"
#include "apps/simulate/candidate.hpp"
#include "apps/simulate/hardware_report.hpp"
#include "apps/simulate/simulate_report.hpp"
#include "apps/simulate/sweep.hpp"
#include "core/text.hpp"
#include "hardware/catalogue.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

/// Number of points that the text shows; --json and --out have all.
constexpr size_t most_shown_points = 50;
/// Number of refusals that the text shows.
constexpr size_t most_shown_refusals = 10;

struct swept_point {
  std::vector<std::string> values;  ///< one for each axis
  double step_s = 0, tokens_per_s = 0, used_share = 0;
  double memory_bytes = -1;  ///< peak of the fullest stage; below 0: not predicted
  std::string verdict;
};

struct refused_points {
  uint64_t count = 0;
  std::string first;  ///< overrides of the first of them
};

struct swept {
  std::vector<sweep_axis> axes;
  std::vector<swept_point> points;  ///< fastest first
  std::map<std::string, refused_points> refused;
  uint64_t all = 0;
};

std::string value_of(const std::string& assignment) { return assignment.substr(assignment.find('=') + 1); }

core::result<swept> sweep(const simulate_arguments& a, const hardware::stack& by) {
  swept out;
  for (const auto& text : a.sweeps) {
    TROUPE_ASSIGN(auto axis, read_axis(text));
    out.axes.push_back(std::move(axis));
  }
  TROUPE_ASSIGN(out.all, points_of(out.axes));
  TROUPE_TRY(check_free(out.axes, a.set, a.ranks > 0));
  for (uint64_t i = 0; i < out.all; ++i) {
    const auto set = overrides_at(out.axes, i);
    common_arguments job = a;
    job.set.insert(job.set.end(), set.begin(), set.end());
    auto found = a.ranks == 0 ? predict_candidate(job, by) : predict_with_ranks(job, a.ranks, by);
    if (!found) {
      for (const auto& why : found.error()) {
        auto& group = out.refused[why];
        if (group.count++ == 0) group.first = fmt::format("{}", fmt::join(set, " "));
      }
      continue;
    }
    swept_point p;
    for (const auto& one : set) p.values.push_back(value_of(one));
    p.step_s = found->step.price.predicted;
    p.tokens_per_s = found->tokens_per_s;
    p.used_share = found->used_share;
    if (!found->memory.empty()) p.memory_bytes = found->memory.front().price.predicted;
    p.verdict = verdict_of(*found);
    out.points.push_back(std::move(p));
  }
  std::ranges::stable_sort(out.points, std::ranges::greater{}, &swept_point::tokens_per_s);
  return out;
}

std::string memory_text(const swept_point& p) { return p.memory_bytes < 0 ? "-" : core::human_bytes(p.memory_bytes); }

std::string sweep_as_text(const simulate_arguments& a, const hardware::stack& by, const swept& all) {
  std::string out = fmt::format("{} on {}: {} points, {} predicted by {}, the fastest first\n",
                                core::printable_line(a.file), by.on.name, all.all, all.points.size(), by.name);
  std::vector<std::vector<std::string>> rows(1);
  for (const auto& axis : all.axes) rows[0].push_back(axis.key);
  for (const char* name : {"step", "tokens/s", "MFU", "memory", ""}) rows[0].emplace_back(name);
  for (size_t i = 0; i < std::min(all.points.size(), most_shown_points); ++i) {
    const auto& p = all.points[i];
    auto row = p.values;
    row.push_back(value_text(hardware::quantity::step, p.step_s));
    row.push_back(fmt::format("{:.4g}", p.tokens_per_s));
    row.push_back(percent_text(100 * p.used_share));
    row.push_back(memory_text(p));
    row.push_back(p.verdict);
    rows.push_back(std::move(row));
  }
  std::vector<bool> right(all.axes.size(), false);
  right.insert(right.end(), {true, true, true, true, false});
  out += core::aligned(rows, right);
  if (all.points.size() > most_shown_points)
    out += fmt::format("and {} more: --json, or --out FILE.csv\n", all.points.size() - most_shown_points);
  size_t shown = 0;
  for (const auto& [why, group] : all.refused) {
    if (shown++ == most_shown_refusals) {
      out += fmt::format("and {} more reasons\n", all.refused.size() - most_shown_refusals);
      break;
    }
    out += fmt::format("refused {}, first {}: {}\n", group.count, core::printable_line(group.first),
                       core::printable_line(why));
  }
  return out;
}

nlohmann::ordered_json point_object(const swept& all, const swept_point& p) {
  using object = nlohmann::ordered_json;
  object set = object::object();
  for (size_t i = 0; i < all.axes.size(); ++i) set[all.axes[i].key] = p.values[i];
  return {{"set", set},
          {"step_s", p.step_s},
          {"tokens_per_s", p.tokens_per_s},
          {"mfu", p.used_share},
          {"memory_bytes", p.memory_bytes < 0 ? object(nullptr) : object(p.memory_bytes)},
          {"memory", p.verdict}};
}

std::string sweep_as_json(const simulate_arguments& a, const hardware::stack& by, const swept& all) {
  using object = nlohmann::ordered_json;
  object points = object::array(), refused = object::array();
  for (const auto& p : all.points) points.push_back(point_object(all, p));
  for (const auto& [why, group] : all.refused)
    refused.push_back({{"why", why}, {"points", group.count}, {"first", group.first}});
  return object{{"format", "troupe simulate --sweep"},
                {"version", 1},
                {"job", a.file},
                {"stack", by.name},
                {"points", all.all},
                {"predicted", points},
                {"refused", refused}}
             .dump(2, ' ', false, object::error_handler_t::replace) +
         "\n";
}

std::string in_csv(const std::string& cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string sweep_as_csv(const swept& all) {
  std::vector<std::string> cells;
  for (const auto& axis : all.axes) cells.push_back(in_csv(axis.key));
  std::string out = fmt::format("{},step_s,tokens_per_s,mfu,memory_bytes,memory\n", fmt::join(cells, ","));
  for (const auto& p : all.points) {
    cells.clear();
    for (const auto& value : p.values) cells.push_back(in_csv(value));
    out += fmt::format("{},{:.9g},{:.9g},{:.9g},{},{}\n", fmt::join(cells, ","), p.step_s, p.tokens_per_s, p.used_share,
                       p.memory_bytes < 0 ? std::string() : fmt::format("{:.0f}", p.memory_bytes), p.verdict);
  }
  return out;
}

}  // namespace

int show_sweep(const simulate_arguments& a) {
  const auto by = hardware::choose_job_stack(a.measured.hardware.front());
  if (!by) return failed(by.error());
  const auto all = sweep(a, *by);
  if (!all) return failed(all.error());
  if (!a.measured.out.empty())
    if (const auto ok = storage::write_file_atomically(a.measured.out, sweep_as_csv(*all)); !ok)
      return failed(ok.error());
  const auto text = a.form == output_form::json ? sweep_as_json(a, *by, *all) : sweep_as_text(a, *by, *all);
  std::fputs(text.c_str(), stdout);
  return all->points.empty() ? 2 : 0;
}

}  // namespace troupe::apps
