// All tokens of a source of text as one long, immutable sequence. Owns where the bytes are stored, how wide a token is
// and where documents begin; sample_order decides which part is read when.
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

/// Size in bytes below which the token files of a folder are copied into memory; larger files are read when their
/// tokens are needed.
inline constexpr uint64_t copied_below_bytes = uint64_t{1} << 20;
/// Largest number of files of a source that stay open; any further file is opened for each read, so it must not be
/// moved or replaced during the run.
inline constexpr size_t open_files_max = 256;

/// Options for reading a source's files. A file's name determines its format (data/formats/files.hpp).
struct source_options {
  std::filesystem::path path;               ///< a file, or a folder whose files are all read, sorted by path
  /// Largest number of bytes of all texts and of compressed token files, after expansion.
  uint64_t max_bytes = uint64_t{16} << 30;
  bin_width bin = bin_width::u16;           ///< width of a `.bin`'s tokens if no description next to it states it
  /// Number of tokens of the model's vocabulary; every token of the source must be below it.
  uint64_t vocab_size = 256;
  /// Folder for nameless files with expanded text and tokens; empty: the system's temporary folder.
  std::filesystem::path scratch = {};
  /// Tokenizer that encodes texts while the source is opened; files of tokens with a description must name the same
  /// tokenizer. Empty: the bytes of a text are its tokens, and files of tokens may be of any tokenizer.
  std::shared_ptr<tokenizer> tokens_of = {};
  /// Key of the text in JSON lines, or name of the column with the text in files of rows.
  std::string text_key = "text";
  bool keep_documents = false;  ///< true: the first token of each document is recorded, as document_starts() requires
  /// Called with the progress while files are expanded, checked and encoded; if it returns false, opening stops. May be
  /// empty.
  reading_watch watch = {};
};

/// A stream of packed samples: rows of `row_tokens` tokens follow each other, and one more token follows the last row.
/// No sample extends over two rows, and the first token of a row does not count as a target.
struct packed_layout {
  uint64_t row_tokens = 0, training_rows = 0, validation_rows = 0;
  std::string recipe;  ///< how the samples were made: template, keys, lengths; two streams may differ in it alone
};
/// Passes every field to `f`, a byte_writer or byte_reader (core/byte_stream.hpp).
void fields(auto& f, packed_layout& x) { f(x.row_tokens, x.training_rows, x.validation_rows, x.recipe); }

/// The tokens of one source of text: an immutable sequence of size() tokens. Any number of threads may read it.
class token_stream {
 public:
  [[nodiscard]] uint64_t size() const { return size_; }

  /// Returns the vocabulary size that the source was checked against; every token is below it.
  [[nodiscard]] uint64_t vocab_size() const { return vocab_size_; }

  /// Writes tokens [first, first + out.size()) to `out`. Errors: bad_input for tokens beyond the stream; io, with the
  /// file, if it has become shorter or cannot be read.
  core::result<void> copy(uint64_t first, std::span<int64_t> out) const;

  /// True if some tokens of the stream do not count as targets, such as the questions of conversations.
  [[nodiscard]] bool selects_targets() const { return selects_targets_; }
  /// Sets `targets` to the token that follows each input of a row if it counts, and to core::no_target elsewhere, and
  /// returns how many count. `row` has the tokens from token `first` of the stream on: the inputs, and the target of
  /// the last one. Without selects_targets() every token counts.
  uint64_t find_targets(uint64_t first, std::span<const int64_t> row, std::span<int64_t> targets) const;
  /// Returns how many of the tokens [first, first + count) count as targets.
  [[nodiscard]] uint64_t counted(uint64_t first, uint64_t count) const;
  /// Returns the borders between tokens that count and tokens that do not, ascending: tokens count from each border
  /// with an even number up to the next one. Empty without selects_targets().
  [[nodiscard]] std::span<const uint64_t> counted_borders() const { return counted_; }
  /// Returns how the stream consists of rows that were packed before; nullopt: windows may begin anywhere.
  [[nodiscard]] const std::optional<packed_layout>& packed() const { return packed_; }

  /// Sets `out` to the column in which each token's document starts, 0 if it starts before `tokens`, whose first token
  /// is token `first` of the stream.
  void document_starts(uint64_t first, std::span<const int64_t> tokens, std::span<uint32_t> out) const;

  [[nodiscard]] uint64_t documents() const { return documents_; }
  /// Returns the number of tokens of the first document; all tokens, if only an end-of-text token shows its end.
  [[nodiscard]] uint64_t first_document_tokens() const { return starts_.size() > 1 ? starts_[1] : size_; }
  /// Returns a summary of the files that were read, for people.
  [[nodiscard]] const source_summary& summary() const { return summary_; }
  /// True if each token is a byte of text; false if tokens are something else or unknown.
  [[nodiscard]] bool tokens_are_bytes() const { return tokens_are_bytes_; }
  /// Returns the tokenizer of the tokens; nullopt if it is unknown.
  [[nodiscard]] const std::optional<token_maker>& maker() const { return maker_; }

 private:
  friend class stream_builder;
  friend class sample_builder;
  friend class told_streams;
  struct segment {
    uint64_t first = 0;  ///< index of the segment's first token in the stream
    uint64_t tokens = 0;
    /// The segment's tokens, if they are in memory; null: they are in the file number `file`.
    const std::byte* memory = nullptr;
    size_t file = 0;
    uint64_t begin = 0;  ///< offset in bytes of the segment's first token in the file
  };
  core::result<void> read(const segment& from, uint64_t skip, std::span<int64_t> out) const;
  void widened(const std::byte* bytes, std::span<int64_t> out) const;

  /// The nameless file that contains all tokens of the source; null if tokens are in other files or in memory.
  std::shared_ptr<const scratch_file> nameless_;
  std::vector<core::source_file> files_;
  std::vector<std::vector<std::byte>> copied_;  ///< contents of small files that were copied into memory, in blocks
  /// Contiguous parts of the stream, each in one file or in memory: ascending, without gaps, none empty.
  std::vector<segment> segments_;
  /// Numbers of the first tokens of documents, ascending, for documents whose start end_of_text_ does not show.
  std::vector<uint64_t> starts_;
  bool selects_targets_ = false;
  /// Borders of the tokens that count, as counted_borders() returns them.
  std::vector<uint64_t> counted_;
  std::optional<packed_layout> packed_;
  /// Token that ends each document, so that the next token starts a document; nullopt: none.
  std::optional<uint32_t> end_of_text_;
  std::optional<token_maker> maker_;
  uint64_t documents_ = 0;
  source_summary summary_;
  uint64_t size_ = 0;
  uint64_t vocab_size_ = 0;
  bool tokens_are_bytes_ = true;
  uint8_t width_ = 1;  ///< width of every token of the stream in bytes
};

/// Opens a file or a folder and checks every token against the vocabulary (the error names position and value). Texts
/// are encoded here, each document followed by the tokenizer's end-of-text token, into a nameless file. Refused: an
/// empty source; a `.bin` whose size is not a multiple of its tokens' width, or whose tokens are wider; described
/// tokens of another tokenizer, or with another end of text, than `tokens_of` or another file of the folder; a `.bin`
/// without description if documents are to be kept; a folder that mixes `.bin` with text or has a link out of itself;
/// content that contradicts the file's name (data/formats/packed_text.hpp).
core::result<std::shared_ptr<const token_stream>> open_tokens(const source_options& options);

}  // namespace troupe::data
