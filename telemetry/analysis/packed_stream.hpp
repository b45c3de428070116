// Owns the text of a file, plain or packed by gzip, as a stream that holds one block at a time. The first bytes decide
// whether the file is packed, not its name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <streambuf>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::telemetry {

class packed_stream final : public std::streambuf {
 public:
  /// Opens a file. Fails if it cannot be read or is not a regular file.
  static core::result<std::unique_ptr<packed_stream>> open(const std::filesystem::path& path);
  ~packed_stream() override;
  packed_stream(const packed_stream&) = delete;
  packed_stream& operator=(const packed_stream&) = delete;

  /// Returns the error that ended the stream before the end of the text: the file has become shorter, or its packed
  /// bytes are damaged or truncated. Empty if there was none so far.
  [[nodiscard]] const std::optional<core::error>& fault() const { return fault_; }

 protected:
  int_type underflow() override;

 private:
  struct decoder;
  explicit packed_stream(core::source_file file);
  core::result<size_t> next_plain(char* out, size_t bytes);
  core::result<size_t> next_unpacked();

  static constexpr size_t block_bytes = size_t{1} << 16;
  core::source_file file_;
  uint64_t offset_ = 0;
  std::vector<char> text_, packed_;
  std::unique_ptr<decoder> decoder_;  // empty: the file is plain
  std::optional<core::error> fault_;
};

}  // namespace troupe::telemetry
