// Shows what a checkpoint of any format holds, and in which files, as text and as JSON. Reads no tensor data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Names in a pickle that Python would import and that Troupe does not recognise. Troupe imports nothing.
struct unknown_names {
  std::filesystem::path file;
  std::vector<std::string> names;  ///< unknown names as `module.name`, ascending
};

/// Returns the unknown names in every torch.save file that belongs to the source or is in its folder, ascending by
/// file; files that cannot be opened are left out. Only containers and pickles are read.
std::vector<unknown_names> unknown_names_in(const tensor_source& s);

/// Returns a description of the checkpoint as text: the state of the run, the tree of modules with the shape, dtype,
/// bytes and files of each tensor, then the list of files.
std::string inspect_text(const tensor_source& s);

/// Returns one JSON object, indented by two: `folder`, `format`, `save_id` (null if there is none), `run`, `files`
/// (name, bytes, pieces, piece_bytes, for a Troupe file the rank that wrote it, and host for a file on another
/// machine's disk), `tensors` (name, kind, moment, dtype, shape, bytes, pieces: file, first, count, offset_bytes, and
/// digest if the format has digests; stored_as if that is not the dtype; cut, and share of each piece, if the tensor is
/// cut), `tied`, `remarks` (which contents of a foreign folder are imported), `found` (other contents of the folder),
/// `unread` (name and type of tensors of types that are not read), `unknown_names` (file, names), `elements` and
/// `bytes` of all tensors. Values that the source does not state are null.
std::string inspect_json(const tensor_source& s);

/// Returns the path of file `number` for messages: relative to the source's folder if it is inside it.
std::string shown_file(const tensor_source& s, uint32_t number);

}  // namespace troupe::formats
