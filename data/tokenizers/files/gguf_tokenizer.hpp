// Makes the files of a tokenizer's folder from the vocabulary in a GGUF file: a tokenizer.json, a SentencePiece model,
// and the configuration with special tokens and chat templates. Owns the meaning of the keys `tokenizer.*`. Source: the
// GGUF specification of the ggml project, and llama.cpp's reading of these keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/vocabulary.hpp"
#include "formats/gguf/metadata.hpp"

namespace troupe::data {

/// Key of the list of a vocabulary's tokens in a GGUF file.
inline constexpr std::string_view gguf_tokens_key = "tokenizer.ggml.tokens";
/// A merge for byte-level vocabularies without merges, which llama.cpp refuses. No token is two characters from U+0100,
/// so the merge is never applied.
inline constexpr const char* gguf_merge_of_nothing = "\u0100\u0100 \u0100";

/// True if the keys are those of Troupe's byte tokenizer: the first tokens are the 256 bytes, and nothing is merged.
bool is_gguf_of_bytes(const formats::gguf_metadata& keys);

/// The vocabulary of one GGUF file.
class gguf_tokenizer {
 public:
  /// Reads the keys of `file`. Refused: a file that is no GGUF file, and one without a vocabulary.
  static core::result<gguf_tokenizer> read(const std::filesystem::path& file);
  /// Reads the vocabulary from `keys`, the metadata of the file `name`. Refused: keys without a vocabulary, a kind
  /// other than `gpt2`, `llama`, `t5` and `bert`, lists of other lengths, a token that occurs twice, of `t5` keys that
  /// are not known, and of `bert` words with upper-case letters, which llama.cpp never finds.
  static core::result<gguf_tokenizer> of(formats::gguf_metadata keys, std::string name);

  /// True for SentencePiece's kinds (`llama` of byte pairs, `t5` of unigrams), false for byte-level pairs (`gpt2`) and
  /// WordPiece
  /// (`bert`).
  [[nodiscard]] bool has_pieces() const { return has_pieces_; }
  [[nodiscard]] bool has_bytes() const { return is_gguf_of_bytes(keys_); }

  /// Returns a tokenizer.json. Refused: a `tokenizer.ggml.pre` that is not known, and lists of another type.
  [[nodiscard]] core::result<nlohmann::json> pipeline() const;
  /// Refuses a vocabulary for which a tokenizer.json has no exact words, so that texts would get other tokens.
  [[nodiscard]] core::result<void> check_pipeline_is_exact() const;
  /// Returns a tokenizer_config.json.
  [[nodiscard]] nlohmann::json configuration() const;
  /// Returns a generation_config.json; null if the GGUF file names no special token.
  [[nodiscard]] nlohmann::json generation() const;
  /// Returns the bytes of a SentencePiece model, for has_pieces() only.
  [[nodiscard]] std::string piece_model() const;

 private:
  gguf_tokenizer(formats::gguf_metadata keys, std::string name) : keys_(std::move(keys)), name_(std::move(name)) {}
  [[nodiscard]] core::result<void> read_entries();
  [[nodiscard]] core::result<void> check_unigram_keys() const;
  [[nodiscard]] core::result<nlohmann::json> byte_level_pipeline() const;
  [[nodiscard]] nlohmann::json piece_pipeline() const;
  [[nodiscard]] nlohmann::json unigram_pipeline() const;
  [[nodiscard]] core::result<nlohmann::json> word_pipeline() const;
  void add_space_rules(nlohmann::json& rules) const;
  [[nodiscard]] nlohmann::json with_model(nlohmann::json rules, nlohmann::json model) const;
  [[nodiscard]] nlohmann::json special_list() const;
  [[nodiscard]] nlohmann::json post_processor() const;
  [[nodiscard]] std::optional<uint32_t> special(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;
  [[nodiscard]] bool adds_begin() const;
  [[nodiscard]] bool adds_end() const;
  [[nodiscard]] std::optional<uint32_t> first_token() const;
  [[nodiscard]] std::optional<uint32_t> last_token() const;
  [[nodiscard]] std::string normaliser() const;

  formats::gguf_metadata keys_;
  std::string name_;
  bool has_pieces_ = false, is_unigram_ = false, is_word_piece_ = false, has_kinds_ = false;
  /// [number]: token of the vocabulary, without the tokens at its end that only fill up the model's vocabulary
  std::vector<vocabulary_entry> entries_;
};

}  // namespace troupe::data
