// Checks for which tokenizer class of transformers the files of a folder were made: other classes cut words by other
// patterns, normalise text, or number the same pieces in another way, which the files with the words do not state. Owns
// the lists of classes that are read like GPT-2's, with their rules, or like plain SentencePiece models.
#include "data/tokenizers/opening/tokenizer_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "data/tokenizers/files/tokenizer_folder.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "families/all_families.hpp"

namespace troupe::data {
namespace {

constexpr const char* config_file = "tokenizer_config.json";

/// A tokenizer class of transformers that merges byte pairs like GPT-2's, named without a final "Fast", and the rules
/// by which it prepares texts if no tokenizer.json states others.
struct byte_pair_class {
  std::string_view name;
  text_rules rules{};
  bool adds_space = false;  ///< true: a space is added before each text unless `add_prefix_space` is false
};

constexpr text_rules composed_gpt2{.words = word_pattern::gpt2, .composes = true};
constexpr text_rules composed_qwen2{.words = word_pattern::qwen2, .composes = true};

constexpr byte_pair_class of_byte_pairs[] = {{"GPT2Tokenizer"},
                                             {"RobertaTokenizer"},
                                             {"BartTokenizer"},
                                             {"LongformerTokenizer"},
                                             {"LEDTokenizer"},
                                             {"MvpTokenizer"},
                                             {"BlenderbotTokenizer", {}, true},
                                             {"OPTTokenizer"},
                                             {"DebertaTokenizer"},
                                             {"CodeGenTokenizer"},
                                             {"GPTNeoTokenizer"},
                                             {"GPTNeoXTokenizer", composed_gpt2},
                                             {"WhisperTokenizer"},
                                             {"PreTrainedTokenizer"},
                                             {"TokenizersBackend"},
                                             {"Qwen2Tokenizer", composed_qwen2}};

/// Model types outside of families/ and the classes among these that transformers chooses for them, if no file names a
/// class.
constexpr std::pair<std::string_view, std::string_view> classes_of_types[] = {{"gpt_neo", "GPT2Tokenizer"},
                                                                              {"gptj", "GPT2Tokenizer"},
                                                                              {"opt", "GPT2Tokenizer"},
                                                                              {"phi", "GPT2Tokenizer"},
                                                                              {"codegen", "GPT2Tokenizer"},
                                                                              {"bart", "RobertaTokenizer"},
                                                                              {"longformer", "RobertaTokenizer"},
                                                                              {"led", "LEDTokenizer"},
                                                                              {"mvp", "MvpTokenizer"},
                                                                              {"blenderbot", "BlenderbotTokenizer"},
                                                                              {"deberta", "DebertaTokenizer"},
                                                                              {"whisper", "WhisperTokenizer"},
                                                                              {"mamba", "GPTNeoXTokenizer"},
                                                                              {"mamba2", "GPTNeoXTokenizer"},
                                                                              {"olmo", "GPTNeoXTokenizer"},
                                                                              {"olmoe", "GPTNeoXTokenizer"},
                                                                              {"qwen2_moe", "Qwen2Tokenizer"},
                                                                              {"qwen2_vl", "Qwen2Tokenizer"},
                                                                              {"qwen2_5_vl", "Qwen2Tokenizer"},
                                                                              {"qwen2_audio", "Qwen2Tokenizer"},
                                                                              {"qwen3_moe", "Qwen2Tokenizer"},
                                                                              {"qwen3_next", "Qwen2Tokenizer"},
                                                                              {"qwen3_vl", "Qwen2Tokenizer"},
                                                                              {"qwen3_vl_moe", "Qwen2Tokenizer"}};

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

/// Returns the `tokenizer_class` of the file `path`, whose keys are given, without a final "Fast"; empty if it names
/// none.
core::result<std::string> class_in(const std::filesystem::path& path, const nlohmann::json& keys) {
  const auto& named = json_value_of(keys, "tokenizer_class");
  if (named.is_null()) return std::string();
  if (!named.is_string())
    return core::refused(fmt::format("'{}': tokenizer_class: wanted a name, got {}", path.string(), named.type_name()));
  auto name = named.get<std::string>();
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

tl::unexpected<core::error> other_class(const std::filesystem::path& path, std::string_view key,
                                        std::string_view wanted, std::string_view got) {
  return core::refused(fmt::format(
      "'{}': {}: wanted one that {}, got {}, which is not supported: its texts would become different tokens",
      path.string(), key, wanted, core::shown(got)));
}

/// Returns the class among of_byte_pairs with this name; null if there is none.
const byte_pair_class* byte_pair_class_named(std::string_view name) {
  const auto* row = std::ranges::find(of_byte_pairs, name, &byte_pair_class::name);
  return row == std::end(of_byte_pairs) ? nullptr : row;
}

/// Returns the name of the class that transformers chooses for models of this type; empty if it merges no byte pairs.
std::string_view class_of_type(std::string_view type) {
  if (const auto* f = families::find(type)) return f->tokenizer_class;
  const auto* row = std::ranges::find_if(classes_of_types, [&](const auto& one) { return one.first == type; });
  return row == std::end(classes_of_types) ? std::string_view() : row->second;
}

constexpr std::string_view wanted_of_byte_pairs = "merges byte pairs and splits words like GPT-2's or Qwen2's";

/// Returns the class of a folder with vocab.json and merges.txt; null if no file says what the folder holds.
core::result<const byte_pair_class*> class_of_byte_pairs(const std::filesystem::path& folder) {
  for (const char* file : {config_file, "config.json"}) {
    TROUPE_ASSIGN(const auto keys, read_json_if_there(folder / file));
    TROUPE_ASSIGN(const auto name, class_in(folder / file, keys));
    if (name.empty()) continue;
    if (const auto* found = byte_pair_class_named(name)) return found;
    return other_class(folder / file, "tokenizer_class", wanted_of_byte_pairs, json_text_of(keys, "tokenizer_class"));
  }
  TROUPE_ASSIGN(const auto model, read_json_if_there(folder / "config.json"));
  const auto type = json_text_of(model, "model_type");
  if (type.empty()) return nullptr;
  if (const auto* found = byte_pair_class_named(class_of_type(type))) return found;
  return core::refused(
      fmt::format("'{}': model_type: wanted one whose tokenizer {}, got {}: put its tokenizer.json next to vocab.json, "
                  "or name the class of these words in tokenizer_config.json, such as \"tokenizer_class\": "
                  "\"GPT2Tokenizer\"",
                  (folder / "config.json").string(), wanted_of_byte_pairs, core::shown(type)));
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
  TROUPE_ASSIGN(const auto name, class_in(folder / config_file, keys));
  if (name.empty() || byte_pair_class_named(name) != nullptr) return {};
  return other_class(folder / config_file, "tokenizer_class", wanted_of_byte_pairs,
                     json_text_of(keys, "tokenizer_class"));
}

core::result<text_rules> text_rules_by_class(const std::filesystem::path& folder) {
  TROUPE_ASSIGN(const auto* const found, class_of_byte_pairs(folder));
  if (found == nullptr) return text_rules{};
  TROUPE_ASSIGN(const auto keys, read_json_if_there(folder / config_file));
  if (found->adds_space && json_flag_of(keys, "add_prefix_space", true))
    return core::refused(
        fmt::format("'{}': add_prefix_space: wanted false, since a space before the text is not supported, got "
                    "nothing, which means true for {}",
                    (folder / config_file).string(), found->name));
  return found->rules;
}

core::result<text_rules> text_rules_in(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  TROUPE_ASSIGN(const auto pipeline, read_json_if_there(path));
  return pipeline.is_null() ? text_rules_by_class(folder) : text_rules_of(path, pipeline);
}

core::result<void> check_piece_class(const std::filesystem::path& folder, bool adds_space) {
  constexpr std::string_view wanted = "numbers the pieces as the SentencePiece model does";
  const auto model_path = folder / "config.json";
  TROUPE_ASSIGN(const auto keys, read_json_if_there(folder / config_file));
  if (json_flag_of(keys, "add_prefix_space", adds_space) != adds_space)
    return core::refused(fmt::format("'{}': add_prefix_space: wanted {}, as in the SentencePiece model, got {}",
                                     (folder / config_file).string(), adds_space, !adds_space));
  TROUPE_ASSIGN(const auto model, read_json_if_there(model_path));
  for (const auto& [path, from] : {std::pair(folder / config_file, &keys), std::pair(model_path, &model)}) {
    TROUPE_ASSIGN(const auto name, class_in(path, *from));
    if (name.empty()) continue;
    if (is_among(as_pieces, name)) return {};
    return other_class(path, "tokenizer_class", wanted, json_text_of(*from, "tokenizer_class"));
  }
  const auto type = json_text_of(model, "model_type");
  if (!is_among(not_as_pieces, type)) return {};
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
