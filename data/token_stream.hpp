// The training text as one long, immutable row of tokens. Owns where the bytes lie and how wide a
// token is; which part is read when is sample_order's business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/mapped_file.hpp"

namespace troupe::data {

/// Bytes of one token in a `.bin` file (little endian).
enum class bin_width : uint8_t { u16 = 2, u32 = 4 };

/// "uint16" or "uint32".
std::optional<bin_width> bin_width_from(std::string_view name);

/// Most regular files below one data folder; more are refused.
inline constexpr uint64_t max_source_files = uint64_t{1} << 20;
/// Files of a folder below this size are copied together; larger ones are mapped one by one, so that
/// the number of mappings stays small.
inline constexpr uint64_t copied_below_bytes = uint64_t{1} << 20;

/// What to read. The name says how: `.gz` and `.dz` are expanded first, then `.bin` holds tokens and
/// everything else is text whose bytes are the tokens.
struct source_options {
  std::filesystem::path path;               ///< a file, or a folder read whole, sorted by path
  uint64_t max_bytes = uint64_t{16} << 30;  ///< most that all `.gz` and `.dz` together may expand to
  bin_width bin = bin_width::u16;           ///< of a `.bin`'s tokens
  uint64_t vocab_size = 256;                ///< every token must be below it
  std::filesystem::path scratch = {};       ///< expanded text lies here, nameless; empty: the system's
};

/// Tokens 0 .. size()-1. Nothing changes after opening, so any number of threads may read.
class token_stream {
 public:
  [[nodiscard]] uint64_t size() const { return size_; }

  /// Every token is below this: what the source was checked against.
  [[nodiscard]] uint64_t vocab_size() const { return vocab_size_; }

  /// Writes tokens [first, first + out.size()), which must lie in the stream.
  void copy(uint64_t first, std::span<int64_t> out) const;

 private:
  friend class stream_builder;
  struct segment {
    uint64_t first = 0;  ///< index of its first token in the stream
    std::span<const std::byte> bytes;
  };

  std::vector<core::mapped_file> files_;
  std::vector<std::vector<std::byte>> copied_;  ///< small files, read into memory
  std::vector<segment> segments_;               ///< ascending, gap-free, none empty
  uint64_t size_ = 0;
  uint64_t vocab_size_ = 0;
  uint8_t width_ = 1;  ///< bytes of a token
};

/// Opens a file or a folder and checks every token against the vocabulary (the error names position
/// and value). Refused: what is empty, a `.bin` that is no multiple of its tokens' width, a folder
/// that mixes `.bin` with text or holds a link out of itself. Links that stay inside are passed over,
/// as what they name is read anyway.
core::result<std::shared_ptr<const token_stream>> open_tokens(const source_options& options);

}  // namespace troupe::data
