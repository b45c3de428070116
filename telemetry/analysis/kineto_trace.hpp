// Owns the meaning of the events of a trace that torch.profiler (Kineto) writes: kernels and copies by stream, the
// calls that launch them, collectives of NCCL. A profiler does not record the order of streams that events impose; the
// rule that replaces it is in kineto_trace.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "telemetry/analysis/traced_step.hpp"

namespace troupe::telemetry {

/// A file of torch.profiler: the trace of one rank.
struct kineto_file {
  std::filesystem::path path;
  uint32_t rank = 0;
  int64_t base_ns = 0;  ///< nanoseconds that are added to all times of the file
};

/// Returns the number of the step that an event encloses by its name, such as ProfilerStep#3; nullopt for other names.
std::optional<uint64_t> kineto_step_of(std::string_view name);

/// Reads steps `numbers`, ascending, of all files. Appends to `notes` sentences about events that are not understood
/// and about clocks that were moved. Errors: limit, if the steps have more than max_kept_spans events; bad_input, if a
/// step has no kernel and no operation.
core::result<std::vector<traced_step>> read_kineto_steps(const std::vector<kineto_file>& files,
                                                         const std::vector<uint64_t>& numbers,
                                                         std::vector<std::string>& notes);

}  // namespace troupe::telemetry
