// Converts documents to rows of tokens: texts of any length in bounded pieces, with each document's end marked. Owns
// the pieces and the width of a token; the caller decides where the bytes are written.
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

/// A longer text is encoded in pieces. A piece of at least this size ends after the next line break between two
/// characters that are not white space; if none follows soon, before the next blank that no white space follows. No
/// word of GPT-2's pattern crosses such a place, so the tokens equal the tokens of the whole text. A tokenizer with
/// cut_signs() has places of its own.
inline constexpr uint64_t piece_bytes = uint64_t{1} << 16;
/// Largest size of a piece. If a text has no line break or blank at which the piece may end, it ends with the last word
/// before; with a tokenizer of bytes, which has no words, between two characters.
inline constexpr uint64_t longest_piece_bytes = uint64_t{1} << 20;
/// Approximate size of the blocks of tokens that the sink receives, and of the text between two calls of the watch.
inline constexpr uint64_t give_bytes = uint64_t{1} << 20;

/// True if a text may be cut before its byte `at`. Empty: everywhere.
using may_cut_at = std::function<bool(size_t at)>;

/// Returns the length of the first piece of `text`, which ends at a line break or blank where it `may_cut`, or with the
/// text. nullopt: no piece of at most longest_piece_bytes ends so.
std::optional<size_t> first_piece_of_words(std::string_view text, const may_cut_at& may_cut = {});
/// Returns the length in bytes of the first piece in which `text` is encoded by a tokenizer without words: without a
/// place of first_piece_of_words() it ends between two characters.
size_t first_piece(std::string_view text);
/// Returns the length of the first piece for a tokenizer whose cut_signs() are `signs`: after at least piece_bytes, the
/// next piece begins with a sign that follows no white space, but a character with which a piece `may_end`, where the
/// text `may_cut`. nullopt: no piece of at most longest_piece_bytes ends so, nor does the text.
std::optional<size_t> first_piece_before(std::string_view text, std::string_view signs,
                                         const std::function<bool(std::string_view character)>& may_end = {},
                                         const may_cut_at& may_cut = {});

/// Progress of reading one file.
struct reading_progress {
  std::string file;
  uint64_t bytes_done = 0;  ///< number of bytes of the expanded text that were read
  uint64_t bytes = 0;
  uint64_t tokens = 0;  ///< number of tokens of all files so far
};

/// Called about once for each give_bytes of text or file, and while rows without text are skipped; false stops the
/// reading (error_kind::stopped).
using reading_watch = std::function<bool(const reading_progress&)>;
using byte_sink = std::function<core::result<void>(std::span<const std::byte>)>;

/// Returns the bytes of one token that can hold any token below `vocab_size`: 1, 2 or 4.
uint8_t token_width(uint64_t vocab_size);

class document_encoder {  ///< encodes texts as tokens, document by document
 public:
  /// Tokens of `width` bytes, little endian, are passed to `sink`. Every token must be below `vocab_size`, which must
  /// fit the width.
  document_encoder(tokenizer& tokenizer, uint8_t width, uint64_t vocab_size, byte_sink sink, reading_watch watch = {});

  /// Encodes all documents of one file's `content`: the lines of a .jsonl with their text under `text_key`, or one
  /// text. Each document is followed by the tokenizer's end-of-text token, if it has one. Refused: a text that encodes
  /// to this token; one that the tokenizer can encode neither whole nor in pieces; one that is not UTF-8, unless its
  /// bytes are the tokens.
  core::result<void> add(const std::filesystem::path& file, text_window&& content, const std::string& text_key);
  /// Encodes any kind of file that holds text (data/formats/files.hpp), named `file`; the texts of its rows
  /// (data/formats/rows.hpp) may have `row_bytes` in total, which become less by them.
  core::result<void> add(const std::filesystem::path& file, const core::source_file& content,
                         const std::string& text_key, uint64_t& row_bytes);

  /// Passes the remaining tokens to the sink; call after the last file.
  core::result<void> flush();

  [[nodiscard]] uint64_t tokens() const { return tokens_; }
  [[nodiscard]] uint64_t documents() const { return documents_; }
  /// Starts to record where each document begins, in tokens of this encoder; starts() returns the record.
  void keep_starts() { keep_starts_ = true; }
  [[nodiscard]] const std::vector<uint64_t>& starts() const { return starts_; }

 private:
  /// Encodes one document. If `lies_there` is true, the document's bytes are those of the file from `begin` on; else
  /// the reader has read the file up to `begin` to produce the document.
  core::result<void> encode(text_window& document, uint64_t begin, bool lies_there);
  /// Encodes the next piece of a document into ids_ and returns its length. `begin` is the number of the document's
  /// first token, `text` the rest of the document from its byte `at` on, or more than a piece of it.
  core::result<size_t> encode_piece(std::string_view text, uint64_t at, uint64_t begin);
  /// Returns the length of the first piece of `text`; nullopt: the text can be cut nowhere.
  core::result<std::optional<size_t>> length_of_piece(std::string_view text);
  core::result<void> give(std::span<const uint32_t> tokens);
  /// Calls the watch if enough bytes were read or encoded since its last call.
  core::result<void> tell_at_times(uint64_t bytes_done);
  core::result<void> tell(uint64_t bytes_done);

  tokenizer& tokenizer_;
  uint8_t width_;
  uint64_t vocab_size_;
  byte_sink sink_;
  reading_watch watch_;
  reading_progress progress_;
  uint64_t told_ = 0;    ///< bytes_done at the last call of the watch
  uint64_t untold_ = 0;  ///< bytes of text encoded since the last call of the watch
  uint64_t tokens_ = 0, documents_ = 0;
  bool keep_starts_ = false;
  std::vector<uint64_t> starts_;
  std::vector<uint32_t> ids_;
  std::vector<std::byte> bytes_;  ///< tokens that the sink has not received yet
};

}  // namespace troupe::data
