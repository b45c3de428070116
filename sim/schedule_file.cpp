#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <tuple>

#include "sim/lanes_text.hpp"
#include "sim/run.hpp"

namespace troupe::sim {
namespace {

constexpr const char* write_variable = "TROUPE_WRITE_SCHEDULES";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    out.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return out;
}

/// Returns up to three lines from the line `at` on, each behind `mark`.
std::string some_lines(const std::vector<std::string_view>& lines, size_t at, std::string_view mark) {
  std::string out;
  for (size_t i = at; i < std::min(lines.size(), at + 3); ++i) {
    std::string_view line = lines[i];
    if (line.ends_with('\n')) line.remove_suffix(1);
    out += fmt::format("\n    {} {}", mark, line);
  }
  return lines.size() > at ? out : fmt::format("\n    {} (the end)", mark);
}

world_error io_error(const std::filesystem::path& file, const char* what) {
  return world_error({core::error_kind::io, fmt::format("{}: {}", file.string(), what)});
}

}  // namespace

std::string simulated_run::schedule() const {
  std::vector<const span*> chosen;
  for (const span& s : all_->spans)
    if ((!rank_ || s.rank == *rank_) && (!step_ || s.step == *step_)) chosen.push_back(&s);
  std::ranges::stable_sort(chosen, {}, [](const span* s) { return std::tuple(s->step, s->rank, s->start_ns); });
  std::string out;
  for (const span* s : chosen)
    out += fmt::format("step {} rank {} {}: {}\n", s->step, s->rank, plan::name_of(s->lane), all_->names[s->name]);
  return out;
}

verdict simulated_run::matches_file(const std::filesystem::path& file) const {
  const std::string is = schedule();
  if (const char* write = std::getenv(write_variable); write != nullptr && std::string_view(write) == "1") {
    std::ofstream out(file, std::ios::binary);
    out << is;
    out.close();
    if (!out) throw io_error(file, "the schedule cannot be written");
    return {true, file.string() + ": written"};
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) throw io_error(file, "wanted the file of a schedule; TROUPE_WRITE_SCHEDULES=1 writes it");
  const std::string wanted{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (wanted == is) return {true, file.string() + ": the same schedule"};
  const auto wanted_lines = lines_of(wanted), lines = lines_of(is);
  const auto [a, b] = std::ranges::mismatch(wanted_lines, lines);
  const auto at = static_cast<size_t>(a - wanted_lines.begin());
  return {false, fmt::format("{}:{}: another schedule; wanted (-), got (+); TROUPE_WRITE_SCHEDULES=1 writes the file",
                             file.string(), at + 1) +
                     some_lines(wanted_lines, at, "-") + some_lines(lines, at, "+") + replay_text(*all_)};
}

}  // namespace troupe::sim
