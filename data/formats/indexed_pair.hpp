// Reads Megatron's indexed data sets: `NAME.bin` of tokens and `NAME.idx`, which states where sequences and documents
// begin. Owns the index's form and that it stays within its `.bin`; leaves the tokens to open_tokens.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::data {

/// Type in which a `.bin` stores its tokens, with the numbers that an index uses for the types.
enum class indexed_type : uint8_t { u8 = 1, i8, i16, i32, i64, f64, f32, u16 };

const char* name_of(indexed_type type);  ///< name of the type in NumPy, such as "uint16"

/// Returns NAME.idx next to NAME.bin, if it exists.
std::optional<std::filesystem::path> index_of(const std::filesystem::path& bin);

class indexed_pair {
 public:
  /// Opens the index of a `.bin` file; `content` is the content of that file and must outlive the result. Checks that
  /// every sequence is inside `content`. `keep_starts`: fills starts(). Errors: bad_input, with both files.
  static core::result<indexed_pair> open(const std::filesystem::path& index, const core::source_file& content,
                                         bool keep_starts);

  [[nodiscard]] indexed_type type() const { return type_; }
  [[nodiscard]] uint64_t tokens() const { return tokens_; }
  [[nodiscard]] uint64_t documents() const { return documents_; }
  /// Returns the token at which each document that has tokens begins, ascending.
  [[nodiscard]] const std::vector<uint64_t>& starts() const { return starts_; }
  /// Returns the byte of the `.bin` from which all sequences follow each other without a gap; nullopt if they do not.
  [[nodiscard]] std::optional<uint64_t> begin_of_all() const { return consecutive_ ? begin_ : std::nullopt; }

  /// Passes all tokens to the sink, sequence by sequence, in blocks of integers of `width` bytes. Refused: a value that
  /// is not a whole number from 0 to below `vocab_size`, or that `width` cannot hold.
  core::result<void> give(uint8_t width, uint64_t vocab_size,
                          const std::function<core::result<void>(std::span<const std::byte>)>& sink) const;

 private:
  core::result<void> check(bool keep_starts);

  core::source_file index_;
  const core::source_file* content_ = nullptr;
  indexed_type type_ = indexed_type::u16;
  uint64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  bool consecutive_ = true;
  std::optional<uint64_t> begin_;
  std::vector<uint64_t> starts_;
};

}  // namespace troupe::data
