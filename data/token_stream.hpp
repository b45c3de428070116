// A source of text as one long, immutable row of tokens. Owns where the bytes lie, how wide a token is and where
// documents begin; which part is read when is sample_order's business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/documents.hpp"
#include "data/source_summary.hpp"
#include "data/token_file.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

class scratch_file;

/// Files of a folder below this size are read into memory; larger ones are read as their tokens are asked for.
inline constexpr uint64_t copied_below_bytes = uint64_t{1} << 20;
/// Of these so many of a source stay open; the others are opened for each read, so they must keep name and place.
inline constexpr size_t open_files_max = 256;

/// Files to read. Their names say how (data/formats/files.hpp).
struct source_options {
  std::filesystem::path path;                 ///< a file, or a folder read whole, sorted by path
  uint64_t max_bytes = uint64_t{16} << 30;    ///< most that all packed files together may expand to
  bin_width bin = bin_width::u16;             ///< of a `.bin`'s tokens where no description beside it says otherwise
  uint64_t vocab_size = 256;                  ///< every token must be below it
  std::filesystem::path scratch = {};         ///< expanded text and tokens lie here, nameless; empty: the system's
  std::shared_ptr<tokenizer> tokens_of = {};  ///< of texts; empty: their bytes are the tokens. Used while opening.
  std::string text_key = "text";              ///< of JSON lines
  bool keep_documents = false;                ///< remember where each document starts, for document_starts()
  reading_watch watch = {};                   ///< hears of what is expanded, checked or encoded, and may stop it
};

/// Tokens 0 .. size()-1. Nothing changes after opening, so any number of threads may read.
class token_stream {
 public:
  [[nodiscard]] uint64_t size() const { return size_; }

  /// Every token is below this: what the source was checked against.
  [[nodiscard]] uint64_t vocab_size() const { return vocab_size_; }

  /// Writes tokens [first, first + out.size()). Errors: bad_input for tokens beyond the stream; io with the file that
  /// has become shorter since, or cannot be read.
  core::result<void> copy(uint64_t first, std::span<int64_t> out) const;

  /// For each of `tokens`, which begin at `first`: the column in which its document starts, 0 where that is before
  /// them.
  void document_starts(uint64_t first, std::span<const int64_t> tokens, std::span<uint32_t> out) const;

  [[nodiscard]] uint64_t documents() const { return documents_; }
  /// What was read, for people.
  [[nodiscard]] const source_summary& summary() const { return summary_; }
  /// True where each token is a byte of text, false where it is something else or unknown.
  [[nodiscard]] bool tokens_are_bytes() const { return tokens_are_bytes_; }

 private:
  friend class stream_builder;
  friend class told_streams;
  struct segment {
    uint64_t first = 0;  ///< index of its first token in the stream
    uint64_t tokens = 0;
    const std::byte* memory = nullptr;  ///< null: in `file`
    size_t file = 0;
    uint64_t begin = 0;  ///< its first byte there
  };
  core::result<void> read(const segment& from, uint64_t skip, std::span<int64_t> out) const;
  void widened(const std::byte* bytes, std::span<int64_t> out) const;

  std::shared_ptr<const scratch_file> nameless_;  ///< that all tokens lie in; null: they lie elsewhere, too
  std::vector<core::source_file> files_;
  std::vector<std::vector<std::byte>> copied_;  ///< small files, read into memory
  std::vector<segment> segments_;               ///< ascending, gap-free, none empty
  std::vector<uint64_t> starts_;                ///< of documents that no token ends; ascending
  std::optional<uint32_t> end_of_text_;         ///< the token behind it starts a document
  uint64_t documents_ = 0;
  source_summary summary_;
  uint64_t size_ = 0;
  uint64_t vocab_size_ = 0;
  bool tokens_are_bytes_ = true;
  uint8_t width_ = 1;  ///< bytes of a token
};

/// Opens a file or a folder and checks every token against the vocabulary (the error names position and value). Texts
/// are encoded here, each document followed by the tokenizer's end of text; their tokens lie in a nameless file.
/// Refused: what is empty, a `.bin` that is no multiple of its tokens' width, wider than that or not of the tokenizer
/// asked for, one that nothing describes where documents are to be kept, a folder that mixes `.bin` with text or holds
/// a link out of itself, content that is not what the name says (data/formats/packed_text.hpp).
core::result<std::shared_ptr<const token_stream>> open_tokens(const source_options& options);

}  // namespace troupe::data
