// Converts text to token numbers and back, for any kind of vocabulary. Owns the interface, the tokenizer of bytes, and
// the comparison with a model's vocabulary. The choice of the kind by a path is the task of opening/open_tokenizer.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/special_tokens.hpp"

namespace troupe::data {

/// Deepest nesting of values in a JSON file of a tokenizer.
inline constexpr size_t max_tokenizer_json_depth = 100;
/// Largest size in bytes of a tokenizer's file that is read.
inline constexpr uint64_t max_tokenizer_bytes = uint64_t{256} << 20;
/// Largest number of tokens of a vocabulary.
inline constexpr uint64_t max_vocabulary = uint64_t{1} << 24;

struct tokenizer_description {  ///< identity of a tokenizer, which descriptions of token files and checkpoints store
  /// Kind of tokenizer: bytes, sentencepiece, a kind of byte pairs (kind_of() in text_rules.hpp), or the kind of a
  /// model (word_model.hpp).
  std::string kind;
  uint64_t vocab_size = 0;  ///< size of the vocabulary: every token is below this number
  /// Number of the token after each document; a text that encodes to it is refused. nullopt: there is none.
  std::optional<uint32_t> end_of_text{};
  /// Digest of words, merges, added words and of the rules that `kind` does not state, or of a SentencePiece model;
  /// independent of file formats.
  std::string digest;
  /// Digest of the bytes of vocab.json and merges.txt; empty if the tokenizer was read from other files.
  std::string file_digest{};
  /// Bytes without a token, ascending, which encode() leaves out; not stored with the identity.
  std::vector<uint8_t> lost_bytes{};
  /// Tokens that are no part of a text, if the tokenizer's files name any; not stored with the identity.
  marked_tokens marked{};
};

/// True if two descriptions are those of one tokenizer. A description that an earlier version wrote has the digest of
/// the files' bytes as its digest.
bool same_vocabulary(const tokenizer_description& one, const tokenizer_description& other);

/// A part of a text, as encode_part() receives it: valid UTF-8, except that its end may cut a character.
struct text_part {
  std::string_view text;
  bool is_begin = true;  ///< true: the text begins with this part
  bool is_end = true;    ///< true: the text ends with this part; false: more of it follows
};

/// Converts text to tokens and back by one vocabulary. An object has scratch memory, so only one thread at a time may
/// use it.
class tokenizer {
 public:
  virtual ~tokenizer() = default;

  /// Appends the tokens of `text`, which may be any bytes. Names of special tokens in the text are ordinary text.
  virtual core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) = 0;

  /// Encodes the beginning of the rest of a text: appends the tokens that no further text can change, and returns the
  /// length of their bytes; the next part begins after these bytes. A part that ends the text is encoded whole. Returns
  /// 0 if the part is too short to decide any token. The tokens of all parts together are those that encode() makes of
  /// the whole text, wherever the caller ends the parts. A tokenizer without this function encodes only whole texts.
  virtual core::result<size_t> encode_part(const text_part& part, std::vector<uint32_t>& out) {
    if (!part.is_begin || !part.is_end) return size_t{0};
    TROUPE_TRY(encode(part.text, out));
    return part.text.size();
  }

  /// Returns the only characters ("signs") before which a long text may be cut, so that encode() of the first part and
  /// encode_next() of all further parts give the tokens of the whole text. Empty: a text cannot be cut. nullopt:
  /// encode_part() finds the positions.
  [[nodiscard]] virtual std::optional<std::string_view> cut_signs() const { return std::nullopt; }

  /// True if a part may end with `character` when one of cut_signs() follows, because the character's tokens do not
  /// depend on the next sign.
  [[nodiscard]] virtual bool may_end_part(std::string_view character) const { return !character.empty(); }

  /// True if `text` may be cut before its byte `at`: no added word of the vocabulary extends across that position.
  [[nodiscard]] virtual bool may_cut(std::string_view /*text*/, size_t /*at*/) const { return true; }

  /// Appends to `out` the tokens of a part of a text that begins with one of cut_signs() and follows an earlier part of
  /// the same text.
  virtual core::result<void> encode_next(std::string_view text, std::vector<uint32_t>& out) {
    return encode(text, out);
  }

  /// Returns the text of `ids`; ids outside the vocabulary are skipped.
  [[nodiscard]] virtual std::string decode(std::span<const uint32_t> ids) const = 0;

  [[nodiscard]] const tokenizer_description& description() const { return description_; }
  [[nodiscard]] uint64_t vocab_size() const { return description_.vocab_size; }
  [[nodiscard]] std::optional<uint32_t> end_of_text() const { return description_.end_of_text; }
  [[nodiscard]] const marked_tokens& marked() const { return description_.marked; }
  void mark(marked_tokens tokens) { description_.marked = std::move(tokens); }

 protected:
  tokenizer_description description_;
};

/// Returns the tokenizer whose tokens are the text's bytes; it has no end of text.
std::unique_ptr<tokenizer> make_byte_tokenizer();

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

/// True for the words that name the tokenizer of bytes where a path of another one may stand: bytes and bytes_as_ids.
constexpr bool is_word_for_bytes(std::string_view word) { return word == "bytes" || word == bytes_as_ids; }

/// Returns FNV-1a, 64 bits, of `parts` one after the other, as 16 hexadecimal digits.
std::string digest_of(std::initializer_list<std::string_view> parts);

}  // namespace troupe::data
