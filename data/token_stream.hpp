// A source of text as one long, immutable row of tokens. Owns where the bytes are stored, how wide a token is and where
// documents begin; leaves to sample_order which part is read when.
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

/// Files of a folder below this size are copied into memory; larger ones are read when their tokens are needed.
inline constexpr uint64_t copied_below_bytes = uint64_t{1} << 20;
/// Files of a source that stay open; any further file is opened for each read, so it must keep its name and place.
inline constexpr size_t open_files_max = 256;

/// Options for reading a source's files. A file's name determines its format (data/formats/files.hpp).
struct source_options {
  std::filesystem::path path;               ///< a file, or a folder whose files are all read, sorted by path
  uint64_t max_bytes = uint64_t{16} << 30;  ///< largest number of bytes of text, expanded, and of packed tokens
  bin_width bin = bin_width::u16;           ///< width of a `.bin`'s tokens if no description next to it states it
  uint64_t vocab_size = 256;                ///< every token must be below this number
  /// Folder for nameless files with expanded text and tokens; empty: the system's temporary folder.
  std::filesystem::path scratch = {};
  /// Tokenizer for texts, used only while opening, which must also be that of described tokens. Empty: the bytes of a
  /// text are its tokens, and described tokens may be of any tokenizer.
  std::shared_ptr<tokenizer> tokens_of = {};
  std::string text_key = "text";  ///< key of the text in JSON lines, column of rows
  bool keep_documents = false;    ///< true: the start of each document is recorded for document_starts()
  /// Called with the progress of expanding, checking and encoding; may stop it.
  reading_watch watch = {};
};

/// The tokens of one source of text: an immutable sequence of size() tokens. Any number of threads may read it.
class token_stream {
 public:
  [[nodiscard]] uint64_t size() const { return size_; }

  /// Returns the vocabulary size that the source was checked against; every token is below it.
  [[nodiscard]] uint64_t vocab_size() const { return vocab_size_; }

  /// Writes tokens [first, first + out.size()) to `out`. Errors: bad_input for tokens beyond the stream; io, with the
  /// file, if it has become shorter or cannot be read.
  core::result<void> copy(uint64_t first, std::span<int64_t> out) const;

  /// Sets `out` to the column in which each token's document starts, 0 if it starts before `tokens`, whose first token
  /// is token `first` of the stream.
  void document_starts(uint64_t first, std::span<const int64_t> tokens, std::span<uint32_t> out) const;

  [[nodiscard]] uint64_t documents() const { return documents_; }
  /// Returns a summary of the files that were read, for people.
  [[nodiscard]] const source_summary& summary() const { return summary_; }
  /// True if each token is a byte of text; false if tokens are something else or unknown.
  [[nodiscard]] bool tokens_are_bytes() const { return tokens_are_bytes_; }
  /// Returns the tokenizer of the tokens; nullopt if it is unknown.
  [[nodiscard]] const std::optional<token_maker>& maker() const { return maker_; }

 private:
  friend class stream_builder;
  friend class told_streams;
  struct segment {
    uint64_t first = 0;  ///< index of the segment's first token in the stream
    uint64_t tokens = 0;
    const std::byte* memory = nullptr;  ///< tokens in memory; null: the tokens are in `file`
    size_t file = 0;
    uint64_t begin = 0;  ///< first byte of the segment in `file`
  };
  core::result<void> read(const segment& from, uint64_t skip, std::span<int64_t> out) const;
  void widened(const std::byte* bytes, std::span<int64_t> out) const;

  std::shared_ptr<const scratch_file> nameless_;  ///< the only file, if all tokens are in one nameless file; else null
  std::vector<core::source_file> files_;
  std::vector<std::vector<std::byte>> copied_;  ///< small files, read into memory
  std::vector<segment> segments_;               ///< parts of the stream: ascending, without gaps, none empty
  /// Starts of documents that may follow another token than the end of text, ascending.
  std::vector<uint64_t> starts_;
  std::optional<uint32_t> end_of_text_;  ///< token after which a document starts; nullopt: none
  std::optional<token_maker> maker_;
  uint64_t documents_ = 0;
  source_summary summary_;
  uint64_t size_ = 0;
  uint64_t vocab_size_ = 0;
  bool tokens_are_bytes_ = true;
  uint8_t width_ = 1;  ///< number of bytes of a token
};

/// Opens a file or a folder and checks every token against the vocabulary (the error names position and value). Texts
/// are encoded here, each document followed by the tokenizer's end-of-text token, into a nameless file. Refused: an
/// empty source; a `.bin` whose size is not a multiple of its tokens' width, or whose tokens are wider; described
/// tokens of another tokenizer, or with another end of text, than `tokens_of` or another file of the folder; a `.bin`
/// without description if documents are to be kept; a folder that mixes `.bin` with text or has a link out of itself;
/// content that contradicts the file's name (data/formats/packed_text.hpp).
core::result<std::shared_ptr<const token_stream>> open_tokens(const source_options& options);

}  // namespace troupe::data
