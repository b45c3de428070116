// A file that exists only as what is made of others: elements that are stored in blocks, as codes with scales, or in
// another order, as plain elements. Readers of such formats list it among a source's files, with a path for people;
// whoever reads tensors sees a file.
#pragma once

#include <cstdint>
#include <memory>

#include "checkpoint/files/file_system.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Lives as long as the source.
class source_view {
 public:
  source_view() = default;
  source_view(const source_view&) = delete;
  source_view& operator=(const source_view&) = delete;
  virtual ~source_view() = default;

  /// Opens what it is made of, for any number of threads; the result does not outlive this object. Refused (io) where
  /// that is no longer as the source knew it.
  [[nodiscard]] virtual core::result<std::unique_ptr<input_file>> open(file_system& files) const = 0;
  /// Whether some elements have few bits there, so that what is read is not what was trained.
  [[nodiscard]] virtual bool is_compressed() const = 0;
};

}  // namespace troupe::checkpoint
