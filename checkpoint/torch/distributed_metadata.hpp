// Reads `.metadata` of torch.distributed.checkpoint: the tensors and objects of a folder, how tensors are cut, and
// which bytes of which file hold each chunk. Owns the pickle's meaning and its limits; leaves the meaning of the names
// for a model to distributed/source.hpp.
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

namespace troupe::checkpoint {

inline constexpr std::string_view distributed_metadata_name = ".metadata", distributed_extension = ".distcp";
/// Most files that contain items.
inline constexpr size_t max_distributed_files = 65'536;
/// Most attributes of one object of Metadata's classes, which have seven at most; attributes are searched one by one.
inline constexpr size_t max_metadata_attributes = 64;
/// Most keys on the path to one entry.
inline constexpr size_t max_entry_keys = 64;

/// A box of a tensor in one item; for an object only the item's place.
struct distributed_item {
  std::vector<int64_t> offsets, sizes;  ///< position and size of the box; empty for an object
  uint32_t file = 0;                    ///< index in distributed_metadata::files
  uint64_t begin = 0, bytes = 0;        ///< byte range in the file: an archive of torch.save
};

struct distributed_entry {
  /// Keys on the path to the entry in the saved dictionary, if the folder states them; positions in lists are in
  /// digits.
  std::vector<std::string> keys;
  std::optional<core::dtype> type;      ///< element type of a tensor; nothing for an object
  std::string unread_type;              ///< type of a tensor that Troupe does not read; the tensor then has no items
  std::vector<int64_t> shape;           ///< shape of the whole tensor
  std::vector<distributed_item> items;  ///< chunks of a tensor; an object has one item

  [[nodiscard]] bool is_tensor() const { return type.has_value(); }
};

struct distributed_metadata {
  std::map<std::string, distributed_entry, std::less<>> entries;  ///< entries by flat name
  std::vector<std::string> files;                                 ///< plain names, ascending
};

/// Reads `folder`/.metadata; calls nothing in it. Refused, with the name: a value that is not a Metadata, a value that
/// depends on a call, an item without a place or in a file outside the folder, an item that leaves its file, a stream
/// transform. A tensor of a torch type that Troupe does not read is listed without items. Chunks may still overlap or
/// leave gaps; joining the pieces detects that.
core::result<distributed_metadata> read_distributed_metadata(const std::filesystem::path& folder);

/// Byte range of one archive in a file.
struct archive_place {
  uint64_t begin = 0, bytes = 0;
};
/// Returns the archives in one file of such a folder, ascending; none if the folder's metadata cannot be read.
std::vector<archive_place> archives_in(const std::filesystem::path& file);

}  // namespace troupe::checkpoint
