// Documents to rows of tokens: texts of any length in bounded pieces, each document's end marked. Owns the pieces and
// the width of a token; where the bytes go is the caller's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/formats/files.hpp"
#include "data/formats/text_window.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// A text longer than this is encoded in pieces. From here on a piece ends behind the next line break that stands alone
/// between two characters which are no white space, or if none comes soon before the next blank with no white space
/// behind it. No word of GPT-2's pattern crosses such a place, so byte pairs are those of the whole text; SentencePiece
/// may begin the next piece with a space of its own, as it does with every text.
inline constexpr uint64_t piece_bytes = uint64_t{1} << 16;
/// A text without such a place is cut here, between two characters; only there a word may be torn.
inline constexpr uint64_t longest_piece_bytes = uint64_t{1} << 20;
/// Tokens go to the sink in blocks of about this size, and the watch is called once for as much text.
inline constexpr uint64_t give_bytes = uint64_t{1} << 20;

/// Length of the first piece of `text`.
size_t first_piece(std::string_view text);

/// How far the reading of one file has come.
struct reading_progress {
  std::string file;
  uint64_t bytes_done = 0;  ///< of its text, expanded
  uint64_t bytes = 0;
  uint64_t tokens = 0;  ///< of all files so far
};

/// Called about once for each give_bytes of text or file, and while rows without text are passed over; false stops the
/// reading (error_kind::stopped).
using reading_watch = std::function<bool(const reading_progress&)>;
using byte_sink = std::function<core::result<void>(std::span<const std::byte>)>;

/// Bytes of one token that hold any below `vocab_size`: 1, 2 or 4.
uint8_t token_width(uint64_t vocab_size);

class document_encoder {  ///< text in, tokens out, document by document
 public:
  /// Tokens of `width` bytes, little endian, go to `sink`. All of them must be below `vocab_size`, which the width
  /// holds.
  document_encoder(tokenizer& tokenizer, uint8_t width, uint64_t vocab_size, byte_sink sink, reading_watch watch = {});

  /// All documents of one file's `content`: lines of a .jsonl with their text under `text_key`, or one text. Each is
  /// followed by the tokenizer's end of text where it has one.
  core::result<void> add(const std::filesystem::path& file, text_window&& content, const std::string& text_key);
  /// The same of any kind of file that holds text (data/formats/files.hpp), named `file`; the text of rows
  /// (data/formats/rows.hpp) may have `max_row_bytes` together.
  core::result<void> add(const std::filesystem::path& file, const core::source_file& content,
                         const std::string& text_key, uint64_t max_row_bytes);

  /// Gives the sink what is left; after the last file.
  core::result<void> flush();

  [[nodiscard]] uint64_t tokens() const { return tokens_; }
  [[nodiscard]] uint64_t documents() const { return documents_; }
  /// Where each document of the files begins, in tokens of this encoder; kept from now on.
  void keep_starts() { keep_starts_ = true; }
  [[nodiscard]] const std::vector<uint64_t>& starts() const { return starts_; }

 private:
  /// `lies_there`: its bytes are those of the file from `begin` on; else the file was read up to `begin` for it.
  core::result<void> encode(text_window& document, uint64_t begin, bool lies_there);
  core::result<void> give(std::span<const uint32_t> tokens);
  /// Calls the watch where enough was read or encoded since.
  core::result<void> tell_at_times(uint64_t bytes_done);
  core::result<void> tell(uint64_t bytes_done);

  tokenizer& tokenizer_;
  uint8_t width_;
  uint64_t vocab_size_;
  byte_sink sink_;
  reading_watch watch_;
  reading_progress progress_;
  uint64_t told_ = 0;    ///< bytes_done when the watch was called last
  uint64_t untold_ = 0;  ///< bytes of text encoded since
  uint64_t tokens_ = 0, documents_ = 0;
  bool keep_starts_ = false;
  std::vector<uint64_t> starts_;
  std::vector<uint32_t> ids_;
  std::vector<std::byte> bytes_;  ///< not yet given to the sink
};

}  // namespace troupe::data
