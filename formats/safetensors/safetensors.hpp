// Reads one safetensors file. Owns the checked list of tensors and their places; executes nothing. Bytes are copied out
// of the file, so a file that another program truncates is an error, not a crash.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::formats {

/// A file whose header was read; movable, and any number of threads may read from it. The descriptor is open only
/// during a read.
class safetensors_file {
 public:
  /// Opens a file and reads its header. Refused, with the path: every error of parse_header(), and a file shorter than
  /// its header states.
  static core::result<safetensors_file> open(const std::filesystem::path& path);

  /// Returns the tensors, ascending by name.
  [[nodiscard]] const std::vector<safetensors_entry>& entries() const { return header_.entries; }
  [[nodiscard]] const string_map& metadata() const { return header_.metadata; }

  /// Returns the path that open() received.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] uint64_t file_bytes() const { return file_.size(); }
  /// Returns the offset in the file of an entry's first byte.
  [[nodiscard]] uint64_t offset_bytes(const safetensors_entry& entry) const { return data_begin_ + entry.begin; }

  /// Returns the entry of a tensor; null if the file has no tensor of that name.
  [[nodiscard]] const safetensors_entry* find(std::string_view name) const;

  /// Copies bytes of one of entries(), from its byte `first` on. Errors (io) name the file: it was shortened, removed
  /// or replaced since it was opened.
  [[nodiscard]] core::result<void> read(const safetensors_entry& entry, uint64_t first, std::span<std::byte> out) const;
  /// Returns all bytes of an entry.
  [[nodiscard]] core::result<std::vector<std::byte>> bytes(const safetensors_entry& entry) const;

 private:
  std::filesystem::path path_;
  core::source_file file_;
  safetensors_header header_;
  uint64_t data_begin_ = 0;  ///< offset in the file of the first byte after the header
};

}  // namespace troupe::formats
