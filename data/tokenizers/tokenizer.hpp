// Text to token numbers and back, whatever the kind of vocabulary. Owns the interface, how a path tells its kind, and
// the check against a model; byte_pair and sentencepiece own their own kinds.
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

/// Values inside values in a JSON file of a tokenizer.
inline constexpr size_t max_tokenizer_json_depth = 100;
/// No tokenizer file is larger.
inline constexpr uint64_t max_tokenizer_bytes = uint64_t{256} << 20;
/// No vocabulary is larger.
inline constexpr uint64_t max_vocabulary = uint64_t{1} << 24;

struct tokenizer_description {            ///< which one it is, for files that name it
  std::string kind;                       ///< bytes, gpt2 or sentencepiece
  uint64_t vocab_size = 0;                ///< every token is below it
  std::optional<uint32_t> end_of_text{};  ///< stands after each document; text itself never encodes to it
  std::string digest;                     ///< of the files' content; two tokenizers with the same one are the same
};

/// One vocabulary with its scratch memory: an object serves one thread at a time.
class tokenizer {
 public:
  virtual ~tokenizer() = default;

  /// Appends the tokens of `text`, which may be any bytes. Names of special tokens in the text are ordinary text.
  virtual core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) = 0;

  /// The text of `ids`; those outside the vocabulary have none.
  [[nodiscard]] virtual std::string decode(std::span<const uint32_t> ids) const = 0;

  [[nodiscard]] const tokenizer_description& description() const { return description_; }
  [[nodiscard]] uint64_t vocab_size() const { return description_.vocab_size; }
  [[nodiscard]] std::optional<uint32_t> end_of_text() const { return description_.end_of_text; }

 protected:
  tokenizer_description description_;
};

/// Tokens are the text's bytes; no end of text.
std::unique_ptr<tokenizer> make_byte_tokenizer();

/// Empty: bytes. A `.model` file, or a folder with tokenizer.model: SentencePiece. A folder with vocab.json and
/// merges.txt, that vocab.json itself, or a tokenizer.json that cuts words alike: GPT-2's byte-pair encoding. The
/// folder's special tokens and added words count (special_tokens.hpp). bad_input for anything else, and for files that
/// are cut short or of another kind.
core::result<std::unique_ptr<tokenizer>> open_tokenizer(const std::filesystem::path& path);

/// Refuses a tokenizer that may give tokens which a model of `vocab_size` entries does not know. Bytes pass: which of
/// them a text really has is checked when it is read.
core::result<void> check_vocabulary(const tokenizer_description& tokenizer, uint64_t vocab_size);

/// The vocabulary of bytes.
inline constexpr uint64_t byte_vocabulary_size = 256;

/// Refuses bytes as tokens of a model with more words, which are not its bytes, unless data.tokenizer is
/// bytes_as_ids; `word` is that key's text, `stream_is_bytes` what the texts turned out to be.
core::result<void> check_bytes_as_ids(bool stream_is_bytes, std::string_view word, uint64_t vocab_size);

/// The value of data.tokenizer that feeds bytes to any vocabulary.
inline constexpr std::string_view bytes_as_ids = "bytes-as-ids";

/// FNV-1a, 64 bits, as 16 hexadecimal digits; `parts` one after the other.
std::string digest_of(std::initializer_list<std::string_view> parts);

}  // namespace troupe::data
