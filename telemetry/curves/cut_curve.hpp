// Cuts the curve files of a resumed run: removes rows of steps that a crash lost, and a torn last row, from the end of
// a file. Owns how the global samples of a row are read, and which files are curves; a run never cuts or renames other
// files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/error.hpp"

namespace troupe::telemetry {

/// Maximum bytes of a row. cut_curve() removes a longer row and all rows after it.
inline constexpr uint64_t row_bytes_limit = uint64_t{1} << 20;

/// Function that returns the number of global samples (x value) in a row, given without its line end; nullopt for a row
/// without that number, such as a header. cut_curve() keeps rows for which the function returns nullopt.
using row_place = std::optional<uint64_t> (*)(std::string_view row);

/// Returns the global samples of a CSV row such as `8,0.1`.
std::optional<uint64_t> csv_place(std::string_view row);
/// Returns the global samples of a JSON object that has a member such as `"global_samples":8`.
std::optional<uint64_t> json_place(std::string_view row);

/// Function that returns true if a curve file may begin with `row`. `whole` is true if the row has its line end; a row
/// without one may be the start of a valid first row. `header`: the first row of a CSV curve.
using first_row = bool (*)(std::string_view row, bool whole, std::string_view header);

/// True if `row` is the header `step,lr` and nothing else; without its line end, the start of the header.
bool csv_begins(std::string_view row, bool whole, std::string_view header);
/// True if `row` is a JSON object that begins with `"step"` and has global samples; without its line end, its start
/// suffices. Ignores `header`.
bool json_begins(std::string_view row, bool whole, std::string_view header);

/// Checks that `file` is a curve, an empty file, or missing. Errors: bad_input if it begins otherwise or is not a
/// regular file, io if it cannot be read.
core::result<void> check_is_curve(const std::filesystem::path& file, first_row begins, std::string_view header);

/// Truncates `file` before its first row with more than `last` global samples or, if there is none, after its last
/// complete row. A missing file is not an error. If nothing is to be removed, the file is not touched.
core::result<void> cut_curve(const std::filesystem::path& file, uint64_t last, row_place place_of);

}  // namespace troupe::telemetry
