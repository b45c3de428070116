// Converts text to token numbers and back, for any kind of vocabulary. Owns the interface, how a path determines the
// kind, and the check against a model; byte_pair and sentencepiece own their kinds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Deepest nesting of values in a JSON file of a tokenizer.
inline constexpr size_t max_tokenizer_json_depth = 100;
/// Largest tokenizer file, in bytes.
inline constexpr uint64_t max_tokenizer_bytes = uint64_t{256} << 20;
/// Largest number of tokens of a vocabulary.
inline constexpr uint64_t max_vocabulary = uint64_t{1} << 24;

struct tokenizer_description {            ///< identity of a tokenizer, for files that name it
  std::string kind;                       ///< kind of tokenizer: bytes, gpt2 or sentencepiece
  uint64_t vocab_size = 0;                ///< every token is below this number
  std::optional<uint32_t> end_of_text{};  ///< token after each document; a text that encodes to it is refused
  std::string digest;                     ///< digest of the vocabulary, whatever files hold it
  std::string file_digest{};              ///< digest of the bytes of vocab.json and merges.txt; empty: other files
};

/// True if two descriptions are those of one vocabulary. A description that an earlier version wrote has the digest of
/// the files' bytes as its digest.
bool same_vocabulary(const tokenizer_description& one, const tokenizer_description& other);

/// Converts text to tokens and back by one vocabulary. An object has scratch memory, so one thread may use it at a
/// time.
class tokenizer {
 public:
  virtual ~tokenizer() = default;

  /// Appends the tokens of `text`, which may be any bytes. Names of special tokens in the text are ordinary text.
  virtual core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) = 0;

  /// Returns the signs before which alone a long text may be cut, so that encode() of the first part and encode_next()
  /// of all further ones give the tokens of the whole text; none of them: it cannot be cut. nullopt: first_piece()
  /// finds the places (data/documents.hpp), and each part is encoded as a text.
  [[nodiscard]] virtual std::optional<std::string_view> cut_signs() const { return std::nullopt; }

  /// True if a part may end with `character` where one of cut_signs() follows: its tokens depend on no sign after it.
  [[nodiscard]] virtual bool may_end_part(std::string_view character) const { return !character.empty(); }

  /// True if no added word of the vocabulary lies across byte `at` of `text`.
  [[nodiscard]] virtual bool may_cut(std::string_view /*text*/, size_t /*at*/) const { return true; }

  /// Returns the last end of a word within the first `most` bytes of `text`; the parts there have the tokens of the
  /// whole. 0: there is none. nullopt: the tokenizer has no words, and the text may be cut anywhere.
  virtual core::result<std::optional<size_t>> last_word_end(std::string_view /*text*/, size_t /*most*/) {
    return std::nullopt;
  }

  /// Appends the tokens of a part that begins with one of cut_signs() and follows a part that has tokens.
  virtual core::result<void> encode_next(std::string_view text, std::vector<uint32_t>& out) {
    return encode(text, out);
  }

  /// Returns the text of `ids`; ids outside the vocabulary are skipped.
  [[nodiscard]] virtual std::string decode(std::span<const uint32_t> ids) const = 0;

  [[nodiscard]] const tokenizer_description& description() const { return description_; }
  [[nodiscard]] uint64_t vocab_size() const { return description_.vocab_size; }
  [[nodiscard]] std::optional<uint32_t> end_of_text() const { return description_.end_of_text; }

 protected:
  tokenizer_description description_;
};

/// Returns the tokenizer whose tokens are the text's bytes; it has no end of text.
std::unique_ptr<tokenizer> make_byte_tokenizer();

/// Opens the tokenizer at `path`. Empty path: bytes. A `.model` file, or a folder with tokenizer.model and without
/// vocab.json: SentencePiece. A folder with vocab.json and merges.txt, that vocab.json itself, or a tokenizer.json that
/// cuts words in the same way: GPT-2's byte-pair encoding. The folder's special tokens and added words are used
/// (special_tokens.hpp). Errors (bad_input): any other path, and files that are truncated or of another kind.
core::result<std::unique_ptr<tokenizer>> open_tokenizer(const std::filesystem::path& path);

/// Returns an error if the tokenizer has more tokens than the model's vocabulary of `vocab_size`. The byte tokenizer is
/// always accepted: the reader of a text checks that each of its bytes is below `vocab_size`.
core::result<void> check_vocabulary(const tokenizer_description& tokenizer, uint64_t vocab_size);

/// Size of the vocabulary of bytes.
inline constexpr uint64_t byte_vocabulary_size = 256;

/// Refuses bytes as tokens of a model whose larger vocabulary does not consist of bytes, unless data.tokenizer is
/// bytes_as_ids. `word` is that key's text; `stream_is_bytes` is true if the source's tokens are bytes.
core::result<void> check_bytes_as_ids(bool stream_is_bytes, std::string_view word, uint64_t vocab_size);

/// Value of data.tokenizer that permits bytes as tokens of any vocabulary.
inline constexpr std::string_view bytes_as_ids = "bytes-as-ids";

/// Returns FNV-1a, 64 bits, of `parts` one after the other, as 16 hexadecimal digits.
std::string digest_of(std::initializer_list<std::string_view> parts);

}  // namespace troupe::data
