// Reads a checkpoint of any format to its last byte. Memory: one block, whatever the sizes of the tensors. Owns the
// list of damages; leaves to the format's reader what a folder must hold to be readable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"
#include "storage/files/progress.hpp"

namespace troupe::formats {

/// True if an error of reading a checkpoint says that bytes do not match their digest or their CRC-32.
bool is_damage(const core::error& e);

/// Largest number of damages that are listed; further damages are only counted.
inline constexpr size_t max_listed_damages = 1000;

/// One damage of a checkpoint: a file that is refused or cannot be read, or bytes that fail a check of digest, CRC-32
/// or padding.
struct damage {
  std::string file;    ///< name of the damaged file, relative to the checkpoint's folder
  std::string tensor;  ///< name of the tensor for messages; empty if the whole file is refused
  uint64_t offset_bytes = 0;
  std::string text;  ///< sentence that describes the damage
};

struct verify_report {
  uint64_t tensors = 0, pieces = 0;
  uint64_t bytes = 0;           ///< number of bytes read
  uint64_t compared_bytes = 0;  ///< number of bytes compared with a digest or a zip archive's CRC-32
  uint64_t damages = 0;         ///< number of damages; 0: the checkpoint is complete, as far as its format can show
  std::vector<damage> listed;
  /// [name of a machine]: files that only the disk of this other machine contains; these files are not read.
  std::map<std::string, std::vector<std::string>> elsewhere{};
};

/// Reads all files. If the source has digests, compares every digest, and checks that padding is zeros. Else compares
/// every CRC-32 in zip archives (a writer may omit it), and only reads any other file. Continues after a damage.
/// Returns an error only if `progress` stopped the function.
core::result<verify_report> verify_source(storage::file_system& files, const tensor_source& s,
                                          const storage::progress_function& progress = {});

}  // namespace troupe::formats
