// Reads the rows of a file as JSON objects, for samples that are more than one text. Owns which kinds of files have
// such rows; leaves each kind to its reader.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {

/// Function that receives a row, its place for errors (`FILE:LINE`, `FILE: row N`), and the byte of the file that the
/// reader has reached. An error of the function ends the reading.
using object_visit =
    std::function<core::result<void>(const nlohmann::ordered_json& row, const std::string& place, uint64_t byte)>;

/// Passes the rows of a Parquet file to `visit`, with the columns of `columns` that the file has: texts, integers,
/// floating-point numbers and booleans, in structures and lists of any nesting. The bytes of the values are subtracted
/// from `bytes_left`. Errors: bad_input with the file's name, also for a value of another type and for a file with none
/// of the columns; limit.
core::result<void> read_parquet_rows(const core::source_file& file, const std::vector<std::string>& columns,
                                     uint64_t& bytes_left, const object_visit& visit);

/// Passes the rows of an Arrow file or stream to `visit`, as read_parquet_rows() does; texts may also be views, and
/// lists have one length. Errors: as there, and by name a column that a dictionary encodes.
core::result<void> read_arrow_rows(const core::source_file& file, const std::vector<std::string>& columns,
                                   uint64_t& bytes_left, const object_visit& visit);

/// Passes the rows of a two-dimensional NumPy array of integers to `visit`, as lists under `input_ids`. Arrays of the
/// same shape beside it, whose names have another column's name in place of `input_ids` (or `_` and that name at the
/// end), are the columns `labels` and `attention_mask`. Errors: bad_input with the file's name for columns without
/// `input_ids`, an array of another type, order or shape, and one that is cut off; limit.
core::result<void> read_array_rows(const core::source_file& file, const std::vector<std::string>& columns,
                                   uint64_t& bytes_left, const object_visit& visit);

/// Passes each row of `file`, whose kind is `kind`, to `visit`. Lines and elements of JSON are passed as they are; a
/// table's rows have the columns of `columns` that exist, nulls included. The bytes of a table's rows are subtracted
/// from `bytes_left`. Errors (bad_input): a kind without such rows, broken JSON with its place, every error of the
/// table's reader; limit: more than `bytes_left`.
core::result<void> read_objects(source_kind kind, const core::source_file& file,
                                const std::vector<std::string>& columns, uint64_t& bytes_left,
                                const object_visit& visit);

}  // namespace troupe::data
