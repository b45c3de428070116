// What `.metadata` of torch.distributed.checkpoint says: the tensors and objects of a folder, how tensors are cut, and
// which bytes of which file hold each chunk. Owns the pickle's meaning and its limits; what the names are to a model is
// distributed/source.hpp's.
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
/// Files that items lie in.
inline constexpr size_t max_distributed_files = 65'536;
/// Attributes of one object of Metadata's classes, which have seven at most; they are searched one by one.
inline constexpr size_t max_metadata_attributes = 64;
/// Keys that lead to one entry.
inline constexpr size_t max_entry_keys = 64;

/// A tensor's box that one item holds, or, of an object, nothing but the place.
struct distributed_item {
  std::vector<int64_t> offsets, sizes;  ///< empty of an object
  uint32_t file = 0;                    ///< place in distributed_metadata::files
  uint64_t begin = 0, bytes = 0;        ///< of the file: an archive of torch.save
};

struct distributed_entry {
  /// The keys that lead to it in the saved dictionary, where the folder says them: numbers of lists are in digits.
  std::vector<std::string> keys;
  std::optional<core::dtype> type;      ///< nothing of an object
  std::string unread_type;              ///< of a tensor whose type is not read here: that; then it has no items
  std::vector<int64_t> shape;           ///< of the whole tensor
  std::vector<distributed_item> items;  ///< of an object one

  [[nodiscard]] bool is_tensor() const { return type.has_value(); }
};

struct distributed_metadata {
  std::map<std::string, distributed_entry, std::less<>> entries;  ///< by flat name
  std::vector<std::string> files;                                 ///< plain names, ascending
};

/// Reads `folder`/.metadata; nothing in it is called. Refused, with the name: what is no Metadata, a value that depends
/// on a call, an item without a place or of a file outside the folder, one that leaves its file, a stream transform. A
/// tensor of one of torch's types that are not read here is listed without its items. Chunks may still overlap or leave
/// gaps: that is seen when pieces are laid together.
core::result<distributed_metadata> read_distributed_metadata(const std::filesystem::path& folder);

/// Bytes of one archive in a file.
struct archive_place {
  uint64_t begin = 0, bytes = 0;
};
/// The archives in one file of such a folder, ascending; none where the folder's list cannot be read.
std::vector<archive_place> archives_in(const std::filesystem::path& file);

}  // namespace troupe::checkpoint
