// A file of torch.save, zip archive or legacy stream, opened without Torch. Owns the open file, the pickle's
// inert values and the list of storages; tensors are places in the file, and their bytes are read by who wants them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/torch/pickle_reader.hpp"
#include "checkpoint/torch/zip_reader.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::checkpoint {

/// Wrappers around one tensor: Parameter around subclass around rebuild.
inline constexpr int max_tensor_wrappers = 8;

/// A strided view into one storage. Checked: every element lies inside the storage.
struct torch_tensor {
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  ///< in elements, not negative
  std::string_view storage;      ///< key; tensors of one key share their memory
  uint64_t begin = 0;            ///< byte of the file where the first element lies
  uint64_t numel = 1;

  /// Whether the elements lie in order without gaps: then they are numel * size_of(type) bytes from `begin` on.
  [[nodiscard]] bool is_contiguous() const;
};

/// One open file; movable, and any number of threads may read.
class torch_archive {
 public:
  /// Refused with the path: what is neither form, a damaged container or pickle, big-endian files, and one that becomes
  /// shorter meanwhile (io).
  static core::result<torch_archive> open(const std::filesystem::path& path);
  /// The same of bytes [begin, begin + bytes) of a file that holds several; places are counted from `begin`.
  static core::result<torch_archive> open_part(const std::filesystem::path& path, uint64_t begin, uint64_t bytes);

  [[nodiscard]] const pickle_tree& tree() const { return tree_; }
  [[nodiscard]] pickle_ref root() const { return tree_.root(); }
  [[nodiscard]] uint64_t file_bytes() const { return bytes_; }
  /// Bytes of a tensor, from byte `offset` of the file on. Errors (io) name the file: it has become shorter since.
  [[nodiscard]] core::result<void> read(uint64_t offset, std::span<std::byte> out) const {
    return file_.read(begin_ + offset, out);
  }
  [[nodiscard]] const std::string& name() const { return name_; }

  /// The tensor that `v` stands for: _rebuild_tensor_v2 and _v3, _rebuild_parameter, a subclass with attributes.
  /// Refused by name where it depends on anything else, and where it leaves its storage.
  [[nodiscard]] core::result<torch_tensor> tensor(pickle_ref v) const;
  /// The type of the tensor that `v` stands for, where torch has it and nothing here reads it, as `uint16` or
  /// `complex64`; empty for every other type, and where `v` is no tensor.
  [[nodiscard]] std::string unread_type(pickle_ref v) const;
  /// Whether `v` looks like one, however broken.
  [[nodiscard]] bool is_tensor(pickle_ref v) const;

  /// torch.Size, a tuple or a list of whole numbers, none negative.
  [[nodiscard]] core::result<std::vector<int64_t>> shape(pickle_ref v) const;
  /// A whole number, also as numpy's scalar or an enum of DeepSpeed's (`ZeroStageEnum(2)`, or its members by name).
  [[nodiscard]] core::result<int64_t> integer(pickle_ref v) const;

  /// Names that Python would import and this reader gives no meaning, ascending: they stay inert.
  [[nodiscard]] std::vector<std::string> unknown_globals() const;

 private:
  struct place {
    uint64_t begin, bytes;
  };
  core::result<void> open_any();
  core::result<void> open_zip();
  core::result<void> open_legacy();
  core::result<torch_tensor> rebuilt(pickle_ref v, int wrappers) const;
  /// Refuses a tensor whose argument `at` says that its values are others than its storage's, as torch's negative bit.
  core::result<void> check_bits(std::span<const pickle_ref> args, size_t at) const;
  core::result<torch_tensor> strided(std::span<const pickle_ref> args, std::optional<core::dtype> type) const;

  core::source_file file_;
  uint64_t begin_ = 0, bytes_ = 0;  ///< what of the file it is
  std::string name_;
  pickle_tree tree_;
  zip_list zip_;                                        ///< of a zip archive
  std::string folder_;                                  ///< "archive/", in front of every entry's name
  std::map<std::string, place, std::less<>> storages_;  ///< of a legacy stream, by key
};

}  // namespace troupe::checkpoint
