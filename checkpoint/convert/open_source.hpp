// Opens a checkpoint of any format. Leaves the choice within a folder to folder_contents.hpp, and each format to its
// own reader.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/convert/folder_contents.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"
#include "core/name_lines.hpp"

namespace troupe::checkpoint {

/// The part of a folder that a command opens, if the folder holds checkpoints and, next to them, weights without an
/// optimizer's states.
enum class wanted_of_folder : uint8_t {
  checkpoint,  ///< the newest checkpoint that a run may resume from
  weights,     ///< only weights: those next to the checkpoints, unless the checkpoints' are more exact
};

/// Options of open_source(); by default the folder's own files decide.
struct source_options {
  /// name of the checkpoint to open, if the folder has several; none: the newest, as look_into() finds it
  std::optional<std::string> tag{};
  /// If the newest checkpoint of a folder cannot be opened, opens the newest before it that can be. In a checkpoint
  /// of Troupe all digests must then match, for which all of its bytes are read.
  bool fallback_to_previous{false};
  /// rules of name_rules.hpp by which tensors are renamed; empty: no tensor is renamed
  core::name_lines map{};
  /// Called with a line for each checkpoint that was skipped, and for what exists next to the opened one.
  std::function<void(const std::string&)> say{};
  wanted_of_folder wants{wanted_of_folder::checkpoint};
  /// For commands that show or compare what is stored: codes of methods that are not decoded here are a remark, not an
  /// error.
  bool as_stored{false};
  /// How the user can set fallback_to_previous, for errors that suggest it; empty: not suggested.
  std::string older_by{"--fallback-to-previous"};
};

/// Opens the source at `path`, one of: a checkpoint of Troupe or a folder of them; a DeepSpeed folder, by its `latest`
/// or a tag's own folder; a universal folder; a folder of torch.distributed.checkpoint; a Hugging Face folder; a
/// safetensors file; a file of torch.save; a GGUF file. Reads only the description of the tensors. Parts of names that
/// wrappers add are removed in all formats except Troupe's. Errors (bad_input, mismatch, io) name file or folder;
/// weights that are codes of a method that is not decoded are refused with the method's name.
core::result<tensor_source> open_source(const std::filesystem::path& path, const source_options& options = {});

/// Returns the error `e` of reading a source that open_source() opened. If bytes of the newest checkpoint do not match
/// their digest and an older checkpoint exists, the text also explains how to open that one.
core::error with_way_around(core::error e, const std::filesystem::path& path, const source_options& options);

}  // namespace troupe::checkpoint
