// Reads steps from traces of Troupe and of torch.profiler. Files are read more than once, so that nothing but the kept
// steps is in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "telemetry/analysis/traced_step.hpp"

namespace troupe::telemetry {

enum class trace_program : uint8_t { troupe, torch_profiler };

/// Largest number of steps that are kept: the last ones that all files have.
inline constexpr size_t max_kept_steps = 8;
/// Largest number of intervals in the kept steps.
inline constexpr size_t max_kept_spans = 20'000'000;

struct kept_traces {
  trace_program program = trace_program::troupe;
  std::vector<traced_step> steps;  ///< ascending; never empty
  size_t steps_seen = 0;           ///< number of steps that the files have
  std::vector<std::string> notes;  ///< sentences about events that are not understood, and about shifted clocks
};

/// Reads the last max_kept_steps steps of the files, or step `wanted` alone. `files` is one trace of Troupe, or traces
/// of torch.profiler with a file for each rank. Errors, each beginning with the file: it cannot be read or is damaged;
/// it has no steps, or not the wanted one; its events have no order; two files are of one rank; a limit is exceeded.
core::result<kept_traces> read_traces(const std::vector<std::filesystem::path>& files,
                                      std::optional<uint64_t> wanted = std::nullopt);

}  // namespace troupe::telemetry
