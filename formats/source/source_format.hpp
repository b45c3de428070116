// Describes a format of checkpoints to code that handles all formats: how a folder or a file of the format is
// recognised, how it is opened, and which files and names it may have. Each reader defines the source_format of its
// format; checkpoint/convert/formats.hpp lists all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/error.hpp"
#include "formats/source/source_options.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Evidence that a path is of a format. A path is opened as the format that is certain, else as one that is possible.
enum class likeness : uint8_t { none, possible, certain };

/// The start of a file that may be a checkpoint, or the first entry of an index of weights.
struct file_start {
  std::span<const std::byte> bytes{};  ///< first bytes of the file; none for an index
  std::string_view first_shard{};      ///< first file that an index of weights lists; empty for any other file

  /// Returns the byte at `i`, or -1 if the file is shorter.
  [[nodiscard]] int byte(size_t i) const { return i < bytes.size() ? std::to_integer<int>(bytes[i]) : -1; }
};

/// One format of checkpoints that open_source() opens.
struct source_format {
  std::string_view described;  ///< format of one checkpoint, for messages: "a Troupe checkpoint"
  /// Text for the error message about a folder that no format recognises, which names the file that the folder would
  /// need to be of this format: "no .metadata (NAME)". Empty: the format has no folders, or another format's text names
  /// the file.
  std::string_view lacks{};
  std::string_view file_kind{};  ///< one file of the format, for messages: "a GGUF file"; empty: there are none

  /// Compares a folder with the format by the names of its files. Returns an error (io) if they cannot be listed.
  core::result<likeness> (*in_folder)(const std::filesystem::path& folder) =
      [](const std::filesystem::path&) -> core::result<likeness> { return likeness::none; };
  /// Compares a file with the format.
  likeness (*in_file)(const file_start& start) = [](const file_start&) { return likeness::none; };
  /// True if a folder of the format has an optimizer's states, judged by the names of its files.
  bool (*has_states)(const std::filesystem::path& folder) = [](const std::filesystem::path&) { return true; };
  /// Opens the checkpoint at `path`, a folder or a file of the format. Reads only the description of the tensors.
  core::result<tensor_source> (*open)(const std::filesystem::path& path, const source_options& options);

  bool is_model_folder = false;    ///< true: the configuration key `model.path` may name a folder of the format
  bool has_module_names = false;   ///< true: names are a module's, which may be wrapped, adapted or quantised
  bool has_trainer_files = false;  ///< true: Trainer and Accelerate keep states and steps next to such weights
  bool lies_below_config = false;  ///< true: config.json may be in the folder or its parent, and open() reads neither
};

}  // namespace troupe::formats
