// The files on one machine's disk of a checkpoint that every machine writes to its own disk
// (`checkpoint.use_node_local_storage`). Owns the names of these files, and opens such a checkpoint as a source without
// asking the other machines. docs/formats.md describes the form; actors/ decides which rank writes it and when.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/digest.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

/// Name of the folder next to the checkpoints that has a subfolder for each save; name of the file in that subfolder
/// that lists which machine wrote which file.
inline constexpr std::string_view node_parts_name = ".parts", node_writers_name = "writers";
inline constexpr uint64_t max_node_writers_bytes = uint64_t{16} << 20;

/// Returns the folder to which the ranks of every machine except the leading one write their files of a save:
/// `root`/.parts/ID. The ranks of the leading machine write to the checkpoint's own folder.
std::filesystem::path node_parts_folder(const std::filesystem::path& root, storage::digest128 save_id);

/// Parses the text of a list of writers; returns a map from a file's name to the machine that wrote the file.
std::map<std::string, std::string> node_writers_in(const std::string& text);

/// Opens the checkpoint at `path`, or the one that `latest` in `path` names, if a list of writers shows that machines
/// have its files on their own disks; nothing if there is no such list. Files of this machine are opened when they are
/// read. For files of other machines source_file::host names the machine, and reading them is an error that names it,
/// too.
core::result<std::optional<formats::tensor_source>> open_node_parts(storage::file_system& files,
                                                                    const std::filesystem::path& path);

}  // namespace troupe::checkpoint
