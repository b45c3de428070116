// Reads one safetensors file. Owns the checked list of tensors and where their bytes are; executes nothing. Bytes are
// copied out of the file, so that one that somebody cuts short is an error.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors/header.hpp"
#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::checkpoint {

/// A file whose header was read; movable, and any number of threads may read from it. It has a descriptor only while it
/// is read.
class safetensors_file {
 public:
  /// Everything parse_header() refuses is refused here, and a file shorter than its header says, with the path in
  /// front.
  static core::result<safetensors_file> open(const std::filesystem::path& path);

  /// Ascending by name.
  [[nodiscard]] const std::vector<safetensors_entry>& entries() const { return header_.entries; }
  [[nodiscard]] const string_map& metadata() const { return header_.metadata; }

  /// As it was opened.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] uint64_t file_bytes() const { return file_.size(); }
  /// Where in the file an entry's first byte lies.
  [[nodiscard]] uint64_t offset_bytes(const safetensors_entry& entry) const { return data_begin_ + entry.begin; }

  /// Null where the file has no such tensor.
  [[nodiscard]] const safetensors_entry* find(std::string_view name) const;

  /// A copy of bytes of one of entries(), from its byte `first` on. Errors (io) name the file: it has become shorter
  /// since it was opened, is gone, or another one has taken its place.
  [[nodiscard]] core::result<void> read(const safetensors_entry& entry, uint64_t first, std::span<std::byte> out) const;
  /// All of them.
  [[nodiscard]] core::result<std::vector<std::byte>> bytes(const safetensors_entry& entry) const;

 private:
  std::filesystem::path path_;
  core::source_file file_;
  safetensors_header header_;
  uint64_t data_begin_ = 0;  ///< behind the header
};

}  // namespace troupe::checkpoint
