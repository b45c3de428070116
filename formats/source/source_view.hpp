// A virtual file that presents elements of other files as plain elements: blocks, codes with scales, or elements in
// another order. Readers of such formats list it among a source's files, with a path for messages; code that reads
// tensors uses it as a file.
#pragma once

#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

/// Base class of virtual files, whose bytes are computed from other files; owned by the source that lists them.
class source_view {
 public:
  source_view() = default;
  source_view(const source_view&) = delete;
  source_view& operator=(const source_view&) = delete;
  virtual ~source_view() = default;

  /// Opens the underlying file for any number of threads; the result must not outlive this object. Refused (io): a file
  /// that has changed since the source was opened.
  [[nodiscard]] virtual core::result<std::unique_ptr<storage::input_file>> open(storage::file_system& files) const = 0;
  /// True if some elements are stored in few bits, so that the values read are not the trained ones.
  [[nodiscard]] virtual bool is_compressed() const = 0;
};

}  // namespace troupe::formats
