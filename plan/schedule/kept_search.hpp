// A search that was done before: what it was asked and what it found, as text beside its table. Owns the question
// whether anything has changed since; leaves files to its callers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/schedule/search.hpp"

namespace troupe::plan {

/// In a run's folder: the table, and what this file is about.
inline constexpr std::string_view schedule_file_name = "schedule.csv";
inline constexpr std::string_view search_file_name = "schedule.txt";
/// Of a file of the second kind that is read.
inline constexpr uint64_t max_search_bytes = uint64_t{64} << 20;

/// The text beside the table of `found`. A line for each number that was asked with, then what was found.
std::string write_search(const search_request& request, const found_schedule& found);

/// What such a text says of the table beside it. Nothing where another request was made, or where the table, proved and
/// without transfers, does not keep to it: then a search is due.
std::optional<found_schedule> read_search(const search_request& request, std::string_view text, pipeline_table table);

}  // namespace troupe::plan
