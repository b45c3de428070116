// Shows what a checkpoint of any format holds, and in which files, as text and as JSON. Reads no tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"

namespace troupe::checkpoint {

/// Names in a pickle that Python would import and that mean nothing here; nothing was imported.
struct unknown_names {
  std::filesystem::path file;
  std::vector<std::string> names;  ///< ascending
};

/// Of every file of torch.save that belongs to the source or lies in its folder, ascending; those that do not open are
/// left out. Only containers and pickles are read.
std::vector<unknown_names> unknown_names_in(const tensor_source& s);

/// The run's state, the tree of modules with each tensor's shape, dtype, bytes and files, then the files.
std::string inspect_text(const tensor_source& s);

/// The same as one JSON object, indented by two: `folder`, `format`, `save_id` (null where there is none), `run`,
/// `files` (name, bytes, pieces, piece_bytes, the rank that wrote one of ours, and host of one on another machine's disk), `tensors` (name, kind,
/// moment, dtype, shape, bytes, pieces: file, first, count, offset_bytes, and digest where the format has them;
/// stored_as where that is not the dtype), `tied`, `remarks` (what of a foreign folder is taken over), `found`
/// (what else lies in the folder that was named), `unread` (name and type of tensors of types that are not read),
/// `unknown_names` (file, names), `elements` and `bytes` of all tensors. What the source does not say is null.
std::string inspect_json(const tensor_source& s);

/// As messages show a source's file: relative to its folder where it lies in it.
std::string shown_file(const tensor_source& s, uint32_t number);

}  // namespace troupe::checkpoint
