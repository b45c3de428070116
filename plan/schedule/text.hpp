// Owns the text of a pipeline table, which is PyTorch's CSV. Its callers read the file from the disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "plan/action.hpp"

namespace troupe::plan {

/// Largest size, in bytes, of a file with a pipeline table that is read.
inline constexpr uint64_t max_table_bytes = uint64_t{256} << 20;

/// Returns the text of a table: a line for each rank, with the rank's actions between commas. PyTorch's
/// _PipelineScheduleRuntime reads this text.
std::string write_table(const pipeline_table& t);

/// The numbers of ranks, stages and micro-batches that a pipeline table in a file must have; 0: any number.
struct table_size {
  uint32_t ranks = 0, stages = 0, micro_batches = 0;
};

/// Reads a pipeline table from the text of a file, and returns the table if find_fault() (proof.hpp) finds no fault in
/// it. The text has a line for each rank, and may have blank lines at its end. Cells are separated by commas; an empty
/// cell means idle and is dropped. Sends and receives may be present or not. Older files of PyTorch are read as well:
/// there BW is a whole backward. If such a file has no I, then a B whose stage and micro-batch also have a W computes
/// only the gradient of the input, and is read as I.
///
/// Errors start with `path:line: `, where the line is the rank's line: bad_input for an unknown action and for every
/// fault that find_fault() finds; limit for more stages times micro-batches than max_stage_micro_batches.
core::result<pipeline_table> read_table(std::string_view text, const std::string& path, const table_size& wanted = {});

}  // namespace troupe::plan
