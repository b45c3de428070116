// What a machine has on its own disk of a checkpoint that every machine writes to a disk of its own
// (`checkpoint.use_node_local_storage`): names of these files, and such a checkpoint as a source where the other
// machines are not asked. Owns this form, which docs/formats.md describes; who writes it when is actors/'s.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/files/digest.hpp"
#include "checkpoint/files/file_system.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Beside the folders of checkpoints; in it a folder for each save, and in that one the list of who wrote which file.
inline constexpr std::string_view node_parts_name = ".parts", node_writers_name = "writers";
inline constexpr uint64_t max_node_writers_bytes = uint64_t{16} << 20;

/// Where ranks of machines that do not lead write the files of a save: `root`/.parts/ID.
std::filesystem::path node_parts_folder(const std::filesystem::path& root, digest128 save_id);

/// By file the host that wrote it.
std::map<std::string, std::string> node_writers_in(const std::string& text);

/// The checkpoint at `path`, or that `path`'s `latest` names, where a list of writers says that machines have its files
/// on disks of their own; nothing where there is no such list. Files of this machine are opened when they are read;
/// those of others have the host in source_file::host, and reading them is refused with it.
core::result<std::optional<tensor_source>> open_node_parts(file_system& files, const std::filesystem::path& path);

}  // namespace troupe::checkpoint
