// Converts documents to tokens: encodes texts of any length in pieces of bounded size, and marks each document's end.
// Owns the division into pieces and the width of a token; the caller decides where the tokens are written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/formats/files.hpp"
#include "data/formats/text_window.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// Size in bytes of a text above which the text is encoded in pieces. The tokenizer sees this many of the remaining
/// bytes and encodes those words that do not depend on further text; the rest belongs to the next piece. If there is no
/// such word, the tokenizer sees twice as many bytes, and so on. For a tokenizer with cut_signs(), first_piece_before()
/// finds the pieces.
inline constexpr uint64_t piece_bytes = uint64_t{1} << 16;
/// Largest size of a piece, and of a word of a long text.
inline constexpr uint64_t longest_piece_bytes = uint64_t{1} << 20;
/// Approximate size of the blocks of tokens that the sink receives, and of the text between two calls of the watch.
inline constexpr uint64_t give_bytes = uint64_t{1} << 20;

/// Function that returns true if a text may be cut before its byte `at`. An empty function permits every position.
using may_cut_at = std::function<bool(size_t at)>;

/// Returns the length of the first piece for a tokenizer whose cut_signs() are `signs`. After at least piece_bytes, the
/// next piece begins with a sign that follows no white space, if `may_end` is true for the character before the sign
/// and `may_cut` for the position; without such a sign the piece is the whole text. Returns nullopt if there is no such
/// sign and the text is longer than longest_piece_bytes.
std::optional<size_t> first_piece_before(std::string_view text, std::string_view signs,
                                         const std::function<bool(std::string_view character)>& may_end = {},
                                         const may_cut_at& may_cut = {});

/// Appends to `out` the tokens of the next piece of `document`, which begins at byte `at`, and returns the piece's
/// length; `has_tokens` is true if an earlier piece of the document has tokens. `first_bytes` is the number of bytes
/// that the tokenizer sees first; no value of it changes the tokens of a document. Returns 0 if the next
/// longest_piece_bytes of the text are one word, or have no sign before which the text may be cut. Refused: a text that
/// is not UTF-8, unless its bytes are tokens.
core::result<uint64_t> encode_piece(tokenizer& by, text_window& document, uint64_t at, bool has_tokens,
                                    uint64_t first_bytes, std::vector<uint32_t>& out);

/// Progress of reading and encoding one file, as the watch receives it.
struct reading_progress {
  std::string file;
  uint64_t bytes_done = 0;  ///< number of bytes of the expanded text that were read
  uint64_t bytes = 0;
  uint64_t tokens = 0;  ///< number of tokens that were made of all files so far
};

/// Called about once for each give_bytes of text or file, and while rows without text are skipped; false stops the
/// reading (error_kind::stopped).
using reading_watch = std::function<bool(const reading_progress&)>;
using byte_sink = std::function<core::result<void>(std::span<const std::byte>)>;

/// Returns the width in bytes of a token that can hold any token below `vocab_size`: 1, 2 or 4.
uint8_t token_width(uint64_t vocab_size);

class document_encoder {  ///< encodes texts as tokens, document by document
 public:
  /// Makes an encoder that passes its tokens to `sink`, each as `width` bytes, little endian. Every token must be below
  /// `vocab_size`, which must fit the width. `watch` may stop the encoding.
  document_encoder(tokenizer& tokenizer, uint8_t width, uint64_t vocab_size, byte_sink sink, reading_watch watch = {});

  /// Encodes all documents of one file's `content`: of a .jsonl file the text under `text_key` of each line, of any
  /// other file the whole text. Each document is followed by the tokenizer's end-of-text token, if it has one. Refused:
  /// a text that encodes to that token; a text that is too long to encode at once and cannot be cut; a text that is not
  /// UTF-8, unless its bytes are the tokens.
  core::result<void> add(const std::filesystem::path& file, text_window&& content, const std::string& text_key);
  /// Encodes a file `content` of any kind that holds text (data/formats/files.hpp), named `file`. The texts of its rows
  /// (data/formats/rows.hpp) may have at most `row_bytes` in total; their size is subtracted from `row_bytes`.
  core::result<void> add(const std::filesystem::path& file, const core::source_file& content,
                         const std::string& text_key, uint64_t& row_bytes);

  /// Passes the remaining tokens to the sink; call after the last file.
  core::result<void> flush();

  [[nodiscard]] uint64_t tokens() const { return tokens_; }
  [[nodiscard]] uint64_t documents() const { return documents_; }
  /// Makes the encoder record, for every later document, the number of its first token, counted over all documents;
  /// starts() returns these numbers.
  void keep_starts() { keep_starts_ = true; }
  [[nodiscard]] const std::vector<uint64_t>& starts() const { return starts_; }

 private:
  /// Encodes one document. `begin` is used for the progress only: if `lies_there` is true, it is the byte of the file
  /// at which the document begins; else it is the byte up to which the reader has read the file to produce the
  /// document.
  core::result<void> encode(text_window& document, uint64_t begin, bool lies_there);
  /// Encodes the piece of a document that begins at byte `at` into ids_ and returns its length in bytes. `begin` is the
  /// number of the document's first token.
  core::result<uint64_t> encode_next(text_window& document, uint64_t at, uint64_t begin);
  core::result<void> give(std::span<const uint32_t> tokens);
  /// Calls the watch if at least give_bytes of the file or of text were processed since its last call.
  core::result<void> tell_at_times(uint64_t bytes_done);
  core::result<void> tell(uint64_t bytes_done);

  tokenizer& tokenizer_;
  uint8_t width_;
  uint64_t vocab_size_;
  byte_sink sink_;
  reading_watch watch_;
  reading_progress progress_;
  uint64_t told_ = 0;    ///< value of bytes_done at the last call of the watch: bytes of the file that were read
  uint64_t untold_ = 0;  ///< bytes of text encoded since the last call of the watch
  uint64_t tokens_ = 0, documents_ = 0;
  bool keep_starts_ = false;
  std::vector<uint64_t> starts_;
  std::vector<uint32_t> ids_;
  std::vector<std::byte> bytes_;  ///< tokens that the sink has not received yet
};

}  // namespace troupe::data
