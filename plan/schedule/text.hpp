// A table of a pipeline as text: PyTorch's CSV. Owns the notation of files; leaves reading them from a disk to the
// caller.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "plan/action.hpp"

namespace troupe::plan {

/// Bytes of a file that is read.
inline constexpr uint64_t max_table_bytes = uint64_t{256} << 20;

/// A line for each rank, its actions between commas: PyTorch's _PipelineScheduleRuntime reads it.
std::string write_table(const pipeline_table& t);

/// What a file must have; 0: as many as it has.
struct table_size {
  uint32_t ranks = 0, stages = 0, micro_batches = 0;
};

/// The table of a file, proved (proof.hpp). A line for each rank, blank ones at the end aside; cells between commas, an
/// empty one is idle and dropped. With transfers or without. Older files of PyTorch are read as well: BW is a whole
/// backward, and in a file without any I, a B beside a W of the same stage and micro-batch is its input part.
///
/// Errors start with `path:line: `, the line of the rank: (bad_input) an unknown action, and what the proof finds;
/// (limit) more stages times micro-batches than max_stage_micro_batches.
core::result<pipeline_table> read_table(std::string_view text, const std::string& path, const table_size& wanted = {});

}  // namespace troupe::plan
