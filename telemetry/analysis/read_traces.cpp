#include "telemetry/analysis/read_traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "telemetry/analysis/kineto_trace.hpp"
#include "telemetry/analysis/trace_events.hpp"
#include "telemetry/analysis/troupe_trace.hpp"

namespace troupe::telemetry {
namespace {

// The steps of one file, by the program that wrote it.
struct survey {
  std::set<uint64_t> troupe, profiler;
  trace_head head;
};

core::result<survey> survey_of(const std::filesystem::path& file) {
  survey out;
  TROUPE_ASSIGN(out.head, read_events(file, [&](const trace_event& e) -> core::result<void> {
                  if (e.phase != "X") return {};
                  if (e.step && e.id) out.troupe.insert(*e.step);
                  if (const auto step = kineto_step_of(e.name)) out.profiler.insert(*step);
                  return {};
                }));
  if (out.troupe.empty() && out.profiler.empty())
    return core::refused(
        fmt::format("'{}': wanted a trace with steps: instructions of troupe train (telemetry.trace), or ProfilerStep "
                    "annotations of "
                    "torch.profiler (call profiler.step() after each step); got {} events without a step",
                    file.string(), out.head.events));
  if (!out.troupe.empty() && !out.profiler.empty())
    return core::refused(
        fmt::format("'{}': wanted the steps of one program, got those of Troupe and of torch.profiler", file.string()));
  return out;
}

core::result<std::vector<uint64_t>> chosen(const std::set<uint64_t>& steps, std::optional<uint64_t> wanted,
                                           const std::string& file) {
  if (steps.empty()) return core::refused(fmt::format("'{}': wanted a step that all files have, got none", file));
  if (wanted && !steps.contains(*wanted))
    return core::refused(fmt::format("--step {}: '{}' has {} steps, from {} to {}", *wanted, file, steps.size(),
                                     *steps.begin(), *steps.rbegin()));
  if (wanted) return std::vector{*wanted};
  const size_t kept = std::min(max_kept_steps, steps.size());
  return std::vector<uint64_t>(std::prev(steps.end(), static_cast<std::ptrdiff_t>(kept)), steps.end());
}

}  // namespace

core::result<kept_traces> read_traces(const std::vector<std::filesystem::path>& files, std::optional<uint64_t> wanted) {
  std::vector<kineto_file> of_ranks;
  std::set<uint64_t> steps;
  kept_traces out;
  for (const auto& file : files) {
    TROUPE_ASSIGN(const auto one, survey_of(file));
    const bool is_troupe = !one.troupe.empty();
    if (is_troupe && files.size() > 1)
      return core::refused(
          fmt::format("'{}': a trace of Troupe has all ranks of its run: wanted it alone, got {} files", file.string(),
                      files.size()));
    out.program = is_troupe ? trace_program::troupe : trace_program::torch_profiler;
    const auto& here = is_troupe ? one.troupe : one.profiler;
    if (of_ranks.empty())
      steps = here;
    else
      std::erase_if(steps, [&](uint64_t s) { return !here.contains(s); });
    const uint64_t rank = one.head.rank.value_or(of_ranks.size());
    if (rank >= no_index) return core::refused(fmt::format("'{}': distributedInfo.rank: got {}", file.string(), rank));
    for (const auto& other : of_ranks)
      if (other.rank == rank)
        return core::refused(fmt::format("'{}' and '{}' are both of rank {}: wanted a file for each rank of one run",
                                         other.path.string(), file.string(), rank));
    of_ranks.push_back({file, static_cast<uint32_t>(rank), one.head.base_ns.value_or(0)});
  }
  if (files.empty()) return core::refused("wanted a trace, got none");
  TROUPE_ASSIGN(const auto numbers, chosen(steps, wanted, files.front().string()));
  out.steps_seen = steps.size();
  if (out.program == trace_program::troupe) {
    TROUPE_ASSIGN(out.steps, read_troupe_steps(files.front(), numbers));
  } else {
    TROUPE_ASSIGN(out.steps, read_kineto_steps(of_ranks, numbers, out.notes));
  }
  return out;
}

}  // namespace troupe::telemetry
