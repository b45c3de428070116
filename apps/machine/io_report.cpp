#include "apps/machine/io_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe::apps {

using storage::io_kind;
using json = nlohmann::ordered_json;

namespace {

constexpr double giga = 1e9;
constexpr unsigned bar_columns = 40;

const std::vector<double>& runs_of(const io_point& p, io_kind kind) { return kind == io_kind::read ? p.read : p.write; }

std::string rates(const std::vector<double>& runs) {
  if (runs.empty()) return fmt::format("{:>6}  {:<13}", "-", "");
  const auto [least, most] = std::minmax_element(runs.begin(), runs.end());
  const std::string range = runs.size() > 1 ? fmt::format("{:.2f} to {:.2f}", *least / giga, *most / giga) : "";
  return fmt::format("{:6.2f}  {:<13}", median(runs) / giga, range);
}

std::string setting_text(const storage::throughput_setting& s) {
  return fmt::format("{:>8} {:>6} {:>8}  {:<6}  {:<8}", binary_text(s.block_bytes), s.queue_depth, s.threads,
                     s.single_submit ? "single" : "batch", s.overlap_events ? "overlap" : "in turns");
}

std::string bar(double part, bar_style style) {
  static constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto units = static_cast<unsigned>(std::lround(std::clamp(part, 0.0, 1.0) * bar_columns * 8));
  std::string out;
  for (unsigned i = 0; i < units / 8; ++i) out += style == bar_style::blocks ? "█" : "#";
  return style == bar_style::blocks ? out + eighths[units % 8] : out;
}

std::string bars(const io_report& r, io_kind kind, bar_style style) {
  std::vector<const io_point*> sorted;
  for (const auto* p : decisive(r.points))
    if (!runs_of(*p, kind).empty()) sorted.push_back(p);
  if (sorted.size() < 2) return "";
  std::stable_sort(sorted.begin(), sorted.end(), [kind](const io_point* a, const io_point* b) {
    return median(runs_of(*a, kind)) > median(runs_of(*b, kind));
  });
  std::string out = fmt::format("\n{}, GB/s{}\n", kind == io_kind::read ? "read" : "write",
                                sorted.size() > io_bars_max ? fmt::format(", the fastest {}", io_bars_max) : "");
  if (sorted.size() > io_bars_max) sorted.resize(io_bars_max);
  const double most = median(runs_of(*sorted.front(), kind));
  for (const auto* p : sorted) {
    const double rate = median(runs_of(*p, kind));
    out +=
        fmt::format("{} {:5.2f} {}\n", setting_text(p->setting), rate / giga, bar(most > 0 ? rate / most : 0, style));
  }
  return out;
}

std::string best_line(const io_report& r, io_kind kind) {
  const io_point* p = best(r.points, kind);
  if (p == nullptr) return "";
  const auto& s = p->setting;
  return fmt::format("best {}: {:.2f} GB/s with blocks of {}, depth {}, {} thread{}{}{}\n",
                     kind == io_kind::read ? "read" : "write", median(runs_of(*p, kind)) / giga,
                     binary_text(s.block_bytes), s.queue_depth, s.threads, s.threads == 1 ? "" : "s",
                     s.single_submit ? ", submitted one by one" : "", s.overlap_events ? "" : ", in turns");
}

json setting_json(const storage::throughput_setting& s) {
  return {{"block_bytes", s.block_bytes},
          {"queue_depth", s.queue_depth},
          {"threads", s.threads},
          {"single_submit", s.single_submit},
          {"overlap_events", s.overlap_events}};
}

json rates_json(const std::vector<double>& runs) {
  auto out = json::array();
  for (const double rate : runs) out.push_back(rate / giga);
  return out;
}

json best_json(const io_point& p, io_kind kind) {
  json out = {{"GB/s", median(runs_of(p, kind)) / giga}};
  out.update(setting_json(p.setting));
  out["runs_GB/s"] = rates_json(runs_of(p, kind));
  return out;
}

json aio_json(const io_point& p) {
  const auto& s = p.setting;
  return {{"block_size", s.block_bytes},
          {"queue_depth", s.queue_depth},
          {"intra_op_parallelism", s.threads},
          {"single_submit", s.single_submit},
          {"overlap_events", s.overlap_events}};
}

}  // namespace

std::string binary_text(uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, units[unit]);
}

std::string aio_section(const io_point& p) {
  std::string out = "aio:\n";
  const json section = aio_json(p);
  for (const auto& [key, value] : section.items()) out += fmt::format("  {}: {}\n", key, value.dump());
  return out;
}

std::string io_text(const io_report& r, bar_style style) {
  const auto finalists = decisive(r.points);
  const size_t passes = finalists.empty() ? 0 : std::max(finalists[0]->read.size(), finalists[0]->write.size());
  std::string out = fmt::format(
      "{}{}: {} a pass, {} pass{}{}, {} I/O, {}\n", r.folder, r.file_system.empty() ? "" : " (" + r.file_system + ")",
      binary_text(r.bytes), passes, passes == 1 ? "" : "es",
      finalists.size() < r.points.size() ? fmt::format(" of the best {} settings", finalists.size())
                                         : std::string(" each"),
      r.mode, r.engine);
  for (const auto& sentence : r.remarks) out += "note: " + sentence + "\n";
  out += fmt::format("\n{:>8} {:>6} {:>8}  {:<6}  {:<8}  {:<21}  {}\n", "block", "depth", "threads", "submit", "events",
                     "read, GB/s", "write, GB/s");
  for (const auto& p : r.points) {
    std::string row = setting_text(p.setting) + "  " + rates(p.read) + "  " + rates(p.write);
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  out += bars(r, io_kind::read, style) + bars(r, io_kind::write, style) + "\n";
  out += best_line(r, io_kind::read) + best_line(r, io_kind::write);
  if (const io_point* p = advised(r.points))
    out += fmt::format("\nfor the topology (within {:.0f} % of the best sum, with the least memory):\n\n{}",
                       io_equal_within * 100, aio_section(*p));
  else if (!r.points.empty())
    out +=
        fmt::format("\nno setting is one for the topology: aio.block_size is a multiple of {}\n", aio_block_multiple);
  return out;
}

std::string io_json(const io_report& r) {
  json out = json::object();
  for (const auto kind : {io_kind::read, io_kind::write})
    if (const io_point* p = best(r.points, kind)) out[kind == io_kind::read ? "read" : "write"] = best_json(*p, kind);
  if (const io_point* p = advised(r.points)) out["aio"] = aio_json(*p);
  out["folder"] = r.folder;
  out["file_system"] = r.file_system;
  out["bytes"] = r.bytes;
  out["mode"] = r.mode;
  out["engine"] = r.engine;
  out["remarks"] = r.remarks;
  out["settings"] = json::array();
  for (const auto& p : r.points) {
    json row = setting_json(p.setting);
    if (!p.read.empty()) row["read_GB/s"] = rates_json(p.read);
    if (!p.write.empty()) row["write_GB/s"] = rates_json(p.write);
    out["settings"].push_back(std::move(row));
  }
  // Replaces invalid UTF-8, since paths may contain any bytes.
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps
