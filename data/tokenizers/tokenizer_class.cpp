// Checks for which tokenizer class of transformers the files of a folder were made: other classes cut words by other
// patterns, normalise text, or number the same pieces in another way, which the files with the words do not state. Owns
// the lists of classes that are read like GPT-2's or like plain SentencePiece models.
#include "data/tokenizers/tokenizer_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "core/text.hpp"

namespace troupe::data {
namespace {

constexpr const char* config_file = "tokenizer_config.json";

/// Tokenizer classes of transformers that merge byte pairs like GPT-2's and cut words by a known pattern, named without
/// a final "Fast". tokenizer.json decides by which, or without it the class (text_rules.hpp).
constexpr std::string_view of_byte_pairs[] = {
    "GPT2Tokenizer",    "RobertaTokenizer",    "BartTokenizer",       "LongformerTokenizer",
    "LEDTokenizer",     "MvpTokenizer",        "BlenderbotTokenizer", "OPTTokenizer",
    "DebertaTokenizer", "CodeGenTokenizer",    "GPTNeoTokenizer",     "GPTNeoXTokenizer",
    "WhisperTokenizer", "PreTrainedTokenizer", "TokenizersBackend",   "Qwen2Tokenizer"};

/// Tokenizer classes of transformers that encode like SentencePiece and keep the numbers of the model's pieces, named
/// without a final "Fast". For the general classes among them tokenizer.json decides, whose numbers are compared with
/// those of the pieces.
constexpr std::string_view as_pieces[] = {
    "LlamaTokenizer",      "LLaMATokenizer",    "CodeLlamaTokenizer",  "GemmaTokenizer",    "T5Tokenizer",
    "MT5Tokenizer",        "BigBirdTokenizer",  "BaichuanTokenizer",   "InternLMTokenizer", "InternLM2Tokenizer",
    "PreTrainedTokenizer", "TokenizersBackend", "SentencePieceBackend"};

/// Model types for which transformers chooses a tokenizer class that gives the pieces other numbers or changes a text
/// before it is cut.
constexpr std::string_view not_as_pieces[] = {"albert",
                                              "bigbird_pegasus",
                                              "camembert",
                                              "deberta-v2",
                                              "fnet",
                                              "layoutxlm",
                                              "m2m_100",
                                              "marian",
                                              "mbart",
                                              "nllb-moe",
                                              "pegasus",
                                              "pegasus_x",
                                              "plbart",
                                              "reformer",
                                              "rembert",
                                              "seamless_m4t",
                                              "seamless_m4t_v2",
                                              "speech_to_text",
                                              "xglm",
                                              "xlm-roberta",
                                              "xlm-roberta-xl",
                                              "xlnet",
                                              "xmod"};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Refuses a `tokenizer_class` of the file that is not among `classes`; returns true if the file names one of them.
core::result<bool> names_one_of(std::span<const std::string_view> classes, const std::filesystem::path& path,
                                const nlohmann::json& keys, std::string_view wanted) {
  const auto& named = json_value_of(keys, "tokenizer_class");
  if (named.is_null()) return false;
  if (!named.is_string())
    return core::refused(fmt::format("'{}': tokenizer_class: wanted a name, got {}", path.string(), named.type_name()));
  const std::string whole = named;
  std::string_view name = whole;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (is_among(classes, name)) return true;
  return core::refused(fmt::format(
      "'{}': tokenizer_class: wanted one that {}, got {}, which is not supported: its texts would become different "
      "tokens",
      path.string(), wanted, core::shown(whole)));
}

}  // namespace

core::result<void> check_no_prefix_space(const std::filesystem::path& folder) {
  TROUPE_ASSIGN(const auto keys, read_json_if_there(folder / config_file));
  if (!json_flag_of(keys, "add_prefix_space", false)) return {};
  return core::refused(
      fmt::format("'{}': add_prefix_space: wanted false, since a space before the text is not supported, got true",
                  (folder / config_file).string()));
}

core::result<void> check_tokenizer_class(const std::filesystem::path& folder) {
  TROUPE_TRY(check_no_prefix_space(folder));
  TROUPE_ASSIGN(const auto keys, read_json_if_there(folder / config_file));
  TROUPE_TRY(names_one_of(of_byte_pairs, folder / config_file, keys,
                          "merges byte pairs and splits words like GPT-2's or Qwen2's"));
  return {};
}

core::result<void> check_piece_class(const std::filesystem::path& folder, bool adds_space) {
  constexpr std::string_view wanted = "numbers the pieces as the SentencePiece model does";
  const auto model_path = folder / "config.json";
  TROUPE_ASSIGN(const auto keys, read_json_if_there(folder / config_file));
  if (json_flag_of(keys, "add_prefix_space", adds_space) != adds_space)
    return core::refused(fmt::format("'{}': add_prefix_space: wanted {}, as in the SentencePiece model, got {}",
                                     (folder / config_file).string(), adds_space, !adds_space));
  TROUPE_ASSIGN(const bool is_named, names_one_of(as_pieces, folder / config_file, keys, wanted));
  if (is_named) return {};
  TROUPE_ASSIGN(const auto model, read_json_if_there(model_path));
  TROUPE_ASSIGN(const bool is_named_there, names_one_of(as_pieces, model_path, model, wanted));
  const auto type = json_text_of(model, "model_type");
  if (is_named_there || !is_among(not_as_pieces, type)) return {};
  return core::refused(
      fmt::format("'{}': model_type: wanted one whose tokenizer {}, got {}, which is not supported: its texts would "
                  "become different tokens",
                  model_path.string(), wanted, type));
}

core::result<void> check_piece_numbers(const std::filesystem::path& folder, const token_finder& number_of) {
  const auto path = folder / "tokenizer.json";
  TROUPE_ASSIGN(const auto pipeline, read_json_if_there(path));
  const auto& words = json_value_of(json_value_of(pipeline, "model"), "vocab");
  uint64_t place = 0;
  for (const auto& [key, value] : words.items()) {
    // `vocab` is a list of [word, score], in which the index is the number, or an object {word: number}.
    const bool has_score = words.is_array() && value.is_array() && !value.empty() && value[0].is_string();
    const std::string word = has_score ? value[0].get<std::string>() : key;
    const auto number = has_score ? nlohmann::json(place) : value;
    ++place;
    if (words.is_array() && !has_score) continue;
    if (const auto piece = number_of(word); piece && number != *piece)
      return core::refused(
          fmt::format("'{}': model.vocab: the word '{}' has number {}, but {} in the SentencePiece model next to it: "
                      "wanted one tokenizer in a folder: remove the files of the other",
                      path.string(), core::shown(word), number.dump(), *piece));
  }
  return {};
}

}  // namespace troupe::data
