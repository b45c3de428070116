// Opens a checkpoint of any format. What of a folder is taken is folder_contents.hpp's to say; each format has a reader
// of its own.
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

/// What a command wants of a folder that holds checkpoints and, beside them, weights without an optimizer's states.
enum class wanted_of_folder : uint8_t {
  checkpoint,  ///< the newest one that a run may resume from
  weights,     ///< weights alone: those beside, where none deeper are more exact
};

/// How to open; the defaults take what the folder itself says.
struct source_options {
  /// Which checkpoint of a folder of several; none: the newest, as look_into() has it.
  std::optional<std::string> tag{};
  /// Where the newest of a folder cannot be opened, the newest before it that can; of ours one whose every digest is
  /// right, for which all of it is read.
  bool fallback_to_previous{false};
  /// Rules for name_rules.hpp, which give the tensors other names; empty: none.
  core::name_lines map{};
  /// Called with a line for each checkpoint that was skipped, and for what lies beside the one that is taken.
  std::function<void(const std::string&)> say{};
  wanted_of_folder wants{wanted_of_folder::checkpoint};
  /// For commands that show or compare what is stored: codes of methods that nothing decodes are no refusal, but a
  /// remark.
  bool as_stored{false};
  /// How whoever asks may have fallback_to_previous, for errors that offer it; empty: not at all.
  std::string older_by{"--fallback-to-previous"};
};

/// One of: a checkpoint of ours or a folder of them; a DeepSpeed folder, by its `latest` or a tag's own folder; a
/// universal folder; a folder of torch.distributed.checkpoint; a Hugging Face folder; a safetensors file; a file of
/// torch.save; a GGUF file. Only what describes the tensors is read. Parts of names that wrappers add are taken out of
/// all formats but ours. Errors (bad_input, mismatch, io) name file or folder; a refusal names the method where weights
/// are codes that nothing decodes.
core::result<tensor_source> open_source(const std::filesystem::path& path, const source_options& options = {});

/// The error `e` of reading what open_source() opened. Where bytes of the newest checkpoint do not have their digest
/// and an older one is there, the sentence says how that is taken, as the errors of open_source() do.
core::error with_way_around(core::error e, const std::filesystem::path& path, const source_options& options);

}  // namespace troupe::checkpoint
