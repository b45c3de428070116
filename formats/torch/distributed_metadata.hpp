// Reads `.metadata` of torch.distributed.checkpoint: the tensors and objects of a folder, how tensors are cut, and
// which bytes of which file hold each chunk. Owns the meaning of the pickle and its limits; leaves the meaning of
// the names for a model to distributed/source.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::formats {

inline constexpr std::string_view distributed_metadata_name = ".metadata", distributed_extension = ".distcp";
/// Largest number of files that contain items.
inline constexpr size_t max_distributed_files = 65'536;
/// Largest number of attributes of one object. Metadata's classes have at most seven; attributes are searched linearly.
inline constexpr size_t max_metadata_attributes = 64;
/// Largest number of keys on the path to one entry.
inline constexpr size_t max_entry_keys = 64;

/// One item of a distributed checkpoint and its place: a box of a tensor's elements, or a whole object.
struct distributed_item {
  std::vector<int64_t> offsets, sizes;  ///< position and size of the box; empty for an object
  uint32_t file = 0;                    ///< index in distributed_metadata::files
  uint64_t begin = 0, bytes = 0;        ///< byte range of the item in the file, an archive of torch.save
};

struct distributed_entry {
  /// Keys on the path to the entry in the saved dictionary; empty if the folder does not state them. A position in a
  /// list is written in digits.
  std::vector<std::string> keys;
  std::optional<core::dtype> type;      ///< element type; nothing for an object or an unread type
  std::string unread_type;              ///< element type that Troupe does not read, by name; `items` is then empty
  std::vector<int64_t> shape;           ///< shape of the whole tensor
  std::vector<distributed_item> items;  ///< chunks of a tensor; an object has one item

  [[nodiscard]] bool is_tensor() const { return type.has_value(); }
};

struct distributed_metadata {
  std::map<std::string, distributed_entry, std::less<>> entries;  ///< entries of the checkpoint, by flat name
  std::vector<std::string> files;                                 ///< plain names of the files with items
};

/// Reads `folder`/.metadata; calls nothing in it. Refused, with the name: a value that is not a Metadata, a value that
/// depends on a call, an item without a place or in a file outside the folder, an item that leaves its file, a stream
/// transform. A tensor of a torch type that Troupe does not read is listed without items. Chunks may still overlap or
/// leave gaps; joining the pieces detects that.
core::result<distributed_metadata> read_distributed_metadata(const std::filesystem::path& folder);

/// Byte range of one item's torch.save archive in a file.
struct archive_place {
  uint64_t begin = 0, bytes = 0;
};
/// Returns the places of the archives in one data file of torch.distributed.checkpoint, ascending; none if the folder's
/// metadata cannot be read.
std::vector<archive_place> archives_in(const std::filesystem::path& file);

}  // namespace troupe::formats
