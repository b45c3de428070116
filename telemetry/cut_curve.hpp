// Where a run resumes, its curves on disk end at the step that it resumes from: rows of steps that a crash lost are
// taken off the end of a file, together with a torn last row. Owns the place of a row on a curve, and which files
// are curves: nothing else is a run's to cut or to set aside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/error.hpp"

namespace troupe::telemetry {

/// A row beyond this ends what is kept of a file.
inline constexpr uint64_t row_bytes_limit = uint64_t{1} << 20;

/// Global samples of a row, without its line end; nothing for one that has none, as a header, which stays.
using row_place = std::optional<uint64_t> (*)(std::string_view row);

/// Of `8,0.1`.
std::optional<uint64_t> csv_place(std::string_view row);
/// Of an object with `"global_samples":8`.
std::optional<uint64_t> json_place(std::string_view row);

/// Whether a file may begin so; `whole`: its line end is there. A torn one may be the beginning of ours.
using first_row = bool (*)(std::string_view row, bool whole, std::string_view header);

/// `step,lr`: the header and nothing else.
bool csv_begins(std::string_view row, bool whole, std::string_view header);
/// An object that begins with `"step"` and has a place; `header` is not looked at.
bool json_begins(std::string_view row, bool whole, std::string_view header);

/// That `file` is a curve, an empty file, or not there. Errors: bad_input for one that begins otherwise or is no file,
/// io for one that cannot be read.
core::result<void> check_is_curve(const std::filesystem::path& file, first_row begins, std::string_view header);

/// Cuts `file` off before its first row beyond `last` samples, or behind its last whole row. No such file is no error.
/// One that need not be cut is not touched.
core::result<void> cut_curve(const std::filesystem::path& file, uint64_t last, row_place place_of);

}  // namespace troupe::telemetry
