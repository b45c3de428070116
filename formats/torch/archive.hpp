// Opens a torch.save file, zip archive or legacy stream, without Torch. Owns the open file, the pickle's inert values
// and the list of storages. Tensors are byte ranges of the file; callers read their bytes.
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

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/source_file.hpp"
#include "formats/torch/pickle_reader.hpp"
#include "formats/torch/zip_reader.hpp"

namespace troupe::formats {

/// Largest number of nested wrappers around one tensor, such as a Parameter around a subclass.
inline constexpr int max_tensor_wrappers = 8;

/// A strided view into one storage; every element is inside the storage.
struct torch_tensor {
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  ///< strides in elements, not negative
  std::string_view storage;      ///< key of the storage; tensors with equal keys share memory
  uint64_t begin = 0;            ///< offset of the first element from the first byte of the archive
  uint64_t numel = 1;

  /// True if the elements are stored in row-major order without gaps: numel * size_of(type) bytes from `begin` on.
  [[nodiscard]] bool is_contiguous() const;
};

/// One open torch.save file; movable, and any number of threads may read from it.
class torch_archive {
 public:
  /// Opens a file. Refused, with the path: a file of neither form, a damaged container or pickle, a big-endian file,
  /// and a file that becomes shorter during the call (io).
  static core::result<torch_archive> open(const std::filesystem::path& path);
  /// Opens an archive that is bytes [begin, begin + bytes) of a file with several archives; offsets count from `begin`.
  static core::result<torch_archive> open_part(const std::filesystem::path& path, uint64_t begin, uint64_t bytes);

  [[nodiscard]] const pickle_tree& tree() const { return tree_; }
  [[nodiscard]] pickle_ref root() const { return tree_.root(); }
  [[nodiscard]] uint64_t begin() const { return begin_; }  ///< returns the archive's offset in its file
  [[nodiscard]] uint64_t file_bytes() const { return bytes_; }
  /// Returns the list of the archive's entries, which is empty if the file is a legacy stream.
  [[nodiscard]] const std::shared_ptr<const zip_list>& zip() const { return zip_; }
  /// Reads bytes of a tensor, from byte `offset` of the archive on. Errors (io) name the file, for instance if it has
  /// become shorter.
  [[nodiscard]] core::result<void> read(uint64_t offset, std::span<std::byte> out) const {
    return file_.read(begin_ + offset, out);
  }
  /// Compares the CRC-32 of the zip entry that contains the storage of `t`, unless its writer stored none; a legacy
  /// stream has none. Errors: bad_input for other bytes; io.
  [[nodiscard]] core::result<void> check_sum(const torch_tensor& t) const;
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Returns the tensor that `v` describes by a call: _rebuild_tensor_v2 or _v3, _rebuild_parameter (also with state),
  /// or _rebuild_from_type_v2. Refused by name: a tensor that depends on any other call, and one that leaves its
  /// storage.
  [[nodiscard]] core::result<torch_tensor> tensor(pickle_ref v) const;
  /// Returns the type of the tensor that `v` describes if torch has it and Troupe does not read it, such as `uint16` or
  /// `complex64`; empty for every other type, and if `v` is not a tensor.
  [[nodiscard]] std::string unread_type(pickle_ref v) const;
  /// True if `v` is a call that builds a tensor, even with invalid arguments.
  [[nodiscard]] bool is_tensor(pickle_ref v) const;

  /// Returns the numbers of a torch.Size, a tuple or a list of whole numbers that are not negative.
  [[nodiscard]] core::result<std::vector<int64_t>> shape(pickle_ref v) const;
  /// Returns the whole number `v`, which may also be a scalar of numpy or a member of DeepSpeed's ZeroStageEnum (by
  /// number or by name).
  [[nodiscard]] core::result<int64_t> integer(pickle_ref v) const;

  /// Returns the names that Python would import and Troupe does not recognise, ascending; their values stay inert.
  [[nodiscard]] std::vector<std::string> unknown_globals() const;

 private:
  struct place {
    uint64_t begin, bytes;
  };
  core::result<void> open_any();
  core::result<void> open_zip();
  core::result<void> open_legacy();
  core::result<torch_tensor> rebuilt(pickle_ref v, int wrappers) const;
  /// Refuses a tensor if argument number `at` contains a flag by which its values differ from its storage's, such as
  /// torch's negative bit.
  core::result<void> check_bits(std::span<const pickle_ref> args, size_t at) const;
  core::result<torch_tensor> strided(std::span<const pickle_ref> args, std::optional<core::dtype> type) const;

  core::source_file file_;
  uint64_t begin_ = 0, bytes_ = 0;  ///< offset of the archive in the file, and its size
  std::string name_;
  pickle_tree tree_;
  std::shared_ptr<const zip_list> zip_ = std::make_shared<const zip_list>();
  std::string folder_;  ///< beginning of every entry's name, such as "archive/"
  /// Byte range of each storage by its key, if the file is a legacy stream.
  std::map<std::string, place, std::less<>> storages_;
};

}  // namespace troupe::formats
