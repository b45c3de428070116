// A checkpoint for the eye and for programs: what it holds and which file holds what. Reads the manifest only.
#pragma once

#include <string>

#include "checkpoint/manifest_file.hpp"

namespace troupe::checkpoint {

/// The run's state, the tree of modules with each tensor's shape, dtype, bytes and files, then the files.
std::string inspect_text(const checkpoint_folder& c);

/// The same as one JSON object, indented by two: `folder`, `version`, `save_id`, `run`, `files` (name, bytes, pieces,
/// piece_bytes), `tensors` (name, kind, moment, dtype, shape, bytes, pieces: file, first, count, offset_bytes, digest),
/// `tied`, `elements` and `bytes` of all tensors.
std::string inspect_json(const checkpoint_folder& c);

}  // namespace troupe::checkpoint
