#include "job/machine_load.hpp"

#include <fstream>

#include <algorithm>
#include <vector>

#include "core/number.hpp"

namespace troupe::job {

std::string kernel_text(const std::filesystem::path& file) {
  constexpr size_t most_bytes = size_t{16} << 20;
  std::ifstream in(file, std::ios::binary);
  std::string out;
  char block[4096];
  while (out.size() < most_bytes && (in.read(block, sizeof block), in.gcount() > 0))
    out.append(block, static_cast<size_t>(in.gcount()));
  return out;
}

std::optional<processor_times> processor_times_in(std::string_view stat, double ticks_per_s) {
  constexpr std::string_view begin = "cpu ";
  // Numbers of the line: user, nice, system, idle, waiting for devices, interrupts, soft interrupts, stolen, guest,
  // nice guest. The last two are counted in the first two, too.
  constexpr size_t idle = 3, waiting = 4, least = 5, most = 8;
  if (!stat.starts_with(begin) || !(ticks_per_s > 0)) return std::nullopt;
  std::string_view line = stat.substr(begin.size(), stat.find('\n') - begin.size());
  std::vector<double> ticks;
  while (ticks.size() < most) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const auto n = core::take_number<uint64_t>(line);
    if (!n) break;
    ticks.push_back(static_cast<double>(*n));
  }
  if (ticks.size() < least) return std::nullopt;
  processor_times out;
  for (size_t i = 0; i < ticks.size(); ++i) {
    out.all_s += ticks[i];
    if (i != idle && i != waiting) out.busy_s += ticks[i];
  }
  out.all_s /= ticks_per_s;
  out.busy_s /= ticks_per_s;
  return out;
}

double share_of_others(const processor_times& before, const processor_times& after, double own_s) {
  const double all_s = after.all_s - before.all_s;
  return all_s > 0 ? std::clamp((after.busy_s - before.busy_s - own_s) / all_s, 0.0, 1.0) : 0;
}

}  // namespace troupe::job
