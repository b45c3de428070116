#include "job/degree_profile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/cells.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"

namespace troupe::job {
namespace {

constexpr std::string_view first_line = "troupe degrees,1";
constexpr std::string_view way_line =
    "instructions,collective_bytes,memory_bytes,flops,predicted_s,step_s,steps,degrees";

using core::read_amount;
using core::read_number;
using core::take_cell;

bool read_way(std::string_view line, measured_way& w) {
  for (uint64_t* n : {&w.size.instructions, &w.size.collective_bytes, &w.size.memory_bytes})
    if (!read_number(take_cell(line, ','), *n)) return false;
  for (double* d : {&w.size.flops, &w.predicted_s, &w.step_s})
    if (!read_amount(take_cell(line, ','), *d)) return false;
  if (!read_number(take_cell(line, ','), w.steps)) return false;
  w.degrees = line;
  return !w.degrees.empty() && (w.steps > 0) == (w.step_s > 0);
}

}  // namespace

const measured_way* degree_profile::find(std::string_view degrees, const plan_size& size) const {
  const auto is_it = [&](const measured_way& w) { return w.steps > 0 && w.degrees == degrees && w.size == size; };
  const auto at = std::ranges::find_if(ways, is_it);
  return at == ways.end() ? nullptr : &*at;
}

std::string write_degree_profile(const degree_profile& p) {
  using core::number_text;
  std::string out(first_line);
  out += fmt::format("\ncores,{}\n", p.cores);
  out.append(way_line) += '\n';
  for (const auto& w : p.ways) {
    for (const uint64_t n : {w.size.instructions, w.size.collective_bytes, w.size.memory_bytes})
      out += fmt::format("{},", n);
    for (const double d : {w.size.flops, w.predicted_s, w.step_s}) out += number_text(d) + ",";
    out += fmt::format("{},{}\n", w.steps, w.degrees);
  }
  return out;
}

core::result<degree_profile> read_degree_profile(std::string_view text, const std::string& path) {
  degree_profile out;
  size_t line = 0;
  const auto next = [&] {
    ++line;
    return take_cell(text, '\n');
  };
  const auto refuse = [&](std::string_view wanted) {
    return core::fail(core::error_kind::bad_input,
                      fmt::format("{}:{}: wanted {} of measured degrees", path, line, wanted));
  };
  if (next() != first_line) return refuse("'" + std::string(first_line) + "'");
  auto cores = next();
  if (take_cell(cores, ',') != "cores" || !read_number(cores, out.cores) || out.cores == 0) return refuse("'cores,N'");
  if (next() != way_line) return refuse("'" + std::string(way_line) + "'");
  while (!text.empty())
    if (!read_way(next(), out.ways.emplace_back())) return refuse("seven numbers and degrees");
  return out;
}

core::result<std::optional<degree_profile>> find_degree_profile(const std::filesystem::path& folder) {
  const auto file = folder / degrees_file_name;
  std::error_code e;
  if (folder.empty() || !std::filesystem::is_regular_file(file, e)) return std::nullopt;
  TROUPE_ASSIGN(const auto text, core::read_file(file, max_degrees_bytes));
  auto read = read_degree_profile(text, file.string());
  if (!read) return core::fail(read.error().kind, read.error().text + "; remove the file to measure steps again");
  return std::move(*read);
}

}  // namespace troupe::job
