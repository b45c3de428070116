// Where a run goes on, its curves on disk end at the step that it goes on from: rows of steps that a crash lost are
// taken off the end of a file, together with a torn last row. Owns what a row's place on a curve is.
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

/// Cuts `file` off before its first row beyond `last` samples, or behind its last whole row. No such file is no error.
/// One that need not be cut is not touched.
core::result<void> cut_curve(const std::filesystem::path& file, uint64_t last, row_place place_of);

}  // namespace troupe::telemetry
