// Owns the text that describes a finished search for a pipeline schedule, and is stored next to the found pipeline
// table: the request and the result. Decides whether the request has changed since; leaves files to its callers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/schedule/search.hpp"

namespace troupe::plan {

/// Name of the file in a run's folder that contains the pipeline table of the found schedule.
inline constexpr std::string_view schedule_file_name = "schedule.csv";
/// Name of the file in a run's folder that contains the text about the schedule search.
inline constexpr std::string_view search_file_name = "schedule.txt";
/// Largest size in bytes of a schedule.txt that is read; a larger one is ignored, and the schedule is searched again.
inline constexpr uint64_t max_search_bytes = uint64_t{64} << 20;

/// Returns the text that is stored next to the pipeline table of `found`: a line for each number of the request, then
/// the result.
std::string write_search(const search_request& request, const found_schedule& found);

/// Returns the result that a stored text and the pipeline table next to it describe. Returns nothing if the text is of
/// another request, or if the table does not meet the request: then a new search is needed. The table must have no
/// sends and receives, and no fault that find_fault() finds.
std::optional<found_schedule> read_search(const search_request& request, std::string_view text, pipeline_table table);

}  // namespace troupe::plan
