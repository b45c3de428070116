// The files of weights that a folder may hold before an export is written into it. Owns their names, which of them the
// export replaces or removes, and which it refuses.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::formats {

/// Hugging Face's names of the files of one format in a folder.
struct weights_names {
  std::string_view stem, ending;

  [[nodiscard]] std::string single() const;  ///< name of the only file, such as model.safetensors
  [[nodiscard]] std::string index() const;   ///< name of the index, such as model.safetensors.index.json
  /// Returns the name of the shard with this number, from 1, of `count`: model-00001-of-00003.safetensors.
  [[nodiscard]] std::string shard(size_t number, size_t count) const;
  /// True if `file` is the name of the only file, of the index or of a shard of this format, whatever the number of
  /// shards.
  [[nodiscard]] bool contain(std::string_view file) const;
};
inline constexpr weights_names safetensors_names{"model", "safetensors"}, torch_names{"pytorch_model", "bin"};

/// Returns bad_input if `folder`, which may be missing, holds weights that an export under `names` does not replace: an
/// index of another name, or the single file of the other format, safetensors or torch.save. Readers of the folder
/// would otherwise find two models.
core::result<void> check_no_other_weights(const std::filesystem::path& folder, const weights_names& names);

/// Removes files that an earlier export left in `folder`: first the index under `names`, so that readers do not open a
/// part of the shards, then all other files under `names` except those in `kept`.
core::result<void> remove_older_weights(const std::filesystem::path& folder, const weights_names& names,
                                        std::span<const std::string> kept);

}  // namespace troupe::formats
