// Reads one safetensors file in place. Owns the mapping and the checked list of tensors; executes
// nothing and copies nothing.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_header.hpp"
#include "core/error.hpp"
#include "core/mapped_file.hpp"
#include "core/tensor_view.hpp"

namespace troupe::checkpoint {

/// An open file; movable, and any number of threads may read from it. Pages come from the disk when they are touched.
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
  [[nodiscard]] uint64_t file_bytes() const { return file_.bytes().size(); }
  /// Where in the file an entry's first byte lies.
  [[nodiscard]] uint64_t offset_bytes(const safetensors_entry& entry) const {
    return file_bytes() - data_.size() + entry.begin;
  }

  /// Null where the file has no such tensor.
  [[nodiscard]] const safetensors_entry* find(std::string_view name) const;

  /// The bytes of one of entries(), as long as this file (moved or not) lives. The format promises no
  /// alignment: copy them, do not cast.
  [[nodiscard]] std::span<const std::byte> bytes(const safetensors_entry& entry) const {
    return data_.subspan(entry.begin, entry.end - entry.begin);
  }

  /// The same as a view. The memory is mapped read-only: writing through the view ends the process.
  [[nodiscard]] core::tensor_view view(const safetensors_entry& entry) const;

 private:
  std::filesystem::path path_;
  core::mapped_file file_;
  safetensors_header header_;
  std::span<const std::byte> data_;  ///< behind the header
};

}  // namespace troupe::checkpoint
