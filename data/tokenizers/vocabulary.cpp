// Finds the files of a vocabulary, and reads those of byte-level ones; SentencePiece's are vocabulary_pieces.cpp's.
#include "data/tokenizers/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "data/tokenizers/byte_alphabet.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "data/tokenizers/vocabulary_pieces.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;
using json = nlohmann::json;

constexpr const char* pieces_file = "tokenizer.model";
constexpr const char* pipeline_file = "tokenizer.json";
constexpr const char* words_file = "vocab.json";
constexpr const char* merges_file = "merges.txt";
constexpr const char* special_file = "tokenizer_config.json";

tl::unexpected<core::error> refused(const fs::path& path, const std::string& why) {
  return fail(error_kind::bad_input, fmt::format("'{}': {}", path.string(), why));
}

core::result<json> read_json(const fs::path& path) {
  const auto text = core::read_file(path, max_tokenizer_bytes);
  if (!text) return fail(text.error());
  if (core::begins_like_lfs_pointer(*text)) return fail(core::lfs_pointer_error((path).string(), *text));
  auto out = core::parse_json(*text, max_tokenizer_json_depth);
  if (!out) return refused(path, fmt::format("wanted one JSON object, got {}", out.error().why));
  if (!out->is_object()) return refused(path, "wanted one JSON object");
  return std::move(*out);
}

/// A text, or that of a special token, which may be an object that has it.
std::string text_of(const json& from, const char* key) {
  const auto at = from.find(key);
  if (at == from.end()) return {};
  if (at->is_string()) return *at;
  if (at->is_object() && at->contains("content") && (*at)["content"].is_string()) return (*at)["content"];
  return {};
}

/// Of a key that may be missing or of another type.
bool flag_of(const json& from, const char* key, bool otherwise) {
  const auto at = from.find(key);
  return at != from.end() && at->is_boolean() ? at->get<bool>() : otherwise;
}

/// Words by number; a number that is missing stays unused.
core::result<void> add_words(const fs::path& path, const json& words, vocabulary& out) {
  if (!words.is_object() || words.empty()) return refused(path, "wanted words and their numbers");
  for (const auto& [word, number] : words.items()) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() >= max_vocabulary)
      return refused(path, fmt::format("the word '{}': wanted a number below {}", core::shown(word), max_vocabulary));
    const auto n = number.get<size_t>();
    if (n >= out.entries.size()) out.entries.resize(n + 1, {"", token_kind::unused});
    if (!out.entries[n].text.empty())
      return refused(path, fmt::format("the word '{}' has number {}, which another has too", core::shown(word), n));
    out.entries[n] = {word, token_kind::normal};
  }
  return {};
}

std::optional<uint32_t> number_of(const vocabulary& v, std::string_view word) {
  const auto at = std::ranges::find(v.entries, word, &vocabulary_entry::text);
  return at == v.entries.end() || word.empty() ? std::nullopt
                                               : std::optional(static_cast<uint32_t>(at - v.entries.begin()));
}

core::result<void> add_special(const fs::path& folder, vocabulary& out) {
  const auto path = folder / special_file;
  std::error_code e;
  if (!fs::exists(path, e)) return {};
  const auto keys = read_json(path);
  if (!keys) return fail(keys.error());
  const std::array<std::pair<const char*, std::optional<uint32_t>*>, 4> all{{{"bos_token", &out.begin},
                                                                             {"eos_token", &out.end},
                                                                             {"unk_token", &out.unknown_token},
                                                                             {"pad_token", &out.padding}}};
  for (const auto& [key, place] : all)
    if (const auto number = number_of(out, text_of(*keys, key))) *place = number;
  if (const auto adds = keys->find("add_bos_token"); adds != keys->end() && adds->is_boolean())
    out.adds_begin = adds->get<bool>();
  out.chat_template = text_of(*keys, "chat_template");
  return {};
}

/// GPT-2's own file of words does not say which one ends a text.
void mark_end_of_text(vocabulary& out) {
  const auto end = number_of(out, "<|endoftext|>");
  if (!end) return;
  out.entries[*end].kind = token_kind::control;
  for (auto* place : {&out.begin, &out.end, &out.unknown_token})
    if (!*place) *place = end;
}

core::result<vocabulary> read_words(const fs::path& folder) {
  vocabulary out;
  out.words = "gpt-2";
  // Its rules, and that the merges are all there, are the tokenizer's to check.
  if (auto usable = open_tokenizer(folder / words_file); !usable) return fail(usable.error());
  const auto words = read_json(folder / words_file);
  if (!words) return fail(words.error());
  if (auto ok = add_words(folder / words_file, *words, out); !ok) return fail(ok.error());
  const auto merges = core::read_file(folder / merges_file, max_tokenizer_bytes);
  if (!merges) return fail(merges.error());
  if (core::begins_like_lfs_pointer(*merges))
    return fail(core::lfs_pointer_error((folder / merges_file).string(), *merges));
  bool is_first = true;
  for (std::string_view rest = *merges; !rest.empty();) {
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_version = is_first && line.starts_with("#version");
    is_first = false;
    if (!line.empty() && !is_version) out.merges.emplace_back(line);
  }
  if (auto ok = add_special(folder, out); !ok) return fail(ok.error());
  mark_end_of_text(out);
  return out;
}

/// llama.cpp's name for how words are cut; empty where it is none that is known here.
std::string words_of(const json& cutter) {
  const auto type = [](const json& j) { return j.is_object() ? text_of(j, "type") : std::string(); };
  const auto is_gpt2 = [&](const json& j) {
    return type(j) == "ByteLevel" && !flag_of(j, "add_prefix_space", true) && flag_of(j, "use_regex", true);
  };
  if (is_gpt2(cutter)) return "gpt-2";
  if (type(cutter) != "Sequence" || !cutter.contains("pretokenizers")) return {};
  const auto& parts = cutter["pretokenizers"];
  if (!parts.is_array() || parts.size() != 2) return {};
  if (type(parts[0]) == "Digits" && flag_of(parts[0], "individual_digits", false) && is_gpt2(parts[1])) return "smollm";
  const bool has_no_words = type(parts[1]) == "ByteLevel" && !flag_of(parts[1], "add_prefix_space", true) &&
                            !flag_of(parts[1], "use_regex", true);
  constexpr const char* llama_3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (type(parts[0]) == "Split" && has_no_words && parts[0].contains("pattern") && parts[0]["pattern"].is_object() &&
      text_of(parts[0]["pattern"], "Regex") == llama_3)
    return "llama-bpe";
  return {};
}

core::result<void> add_merges(const fs::path& path, const json& merges, vocabulary& out) {
  if (!merges.is_array()) return refused(path, "model.merges: wanted a list");
  for (const auto& m : merges) {
    if (m.is_string()) {
      out.merges.push_back(m);
    } else if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      out.merges.push_back(m[0].get<std::string>() + " " + m[1].get<std::string>());
    } else {
      return refused(path, "model.merges: wanted pairs of words");
    }
  }
  return {};
}

core::result<vocabulary> read_pipeline(const fs::path& path) {
  const auto keys = read_json(path);
  if (!keys) return fail(keys.error());
  const auto model = keys->value("model", json());
  if (!model.is_object() || (model.contains("type") && text_of(model, "type") != "BPE") || !model.contains("vocab"))
    return refused(path, "model: wanted one of type BPE with a vocabulary");
  if (flag_of(model, "byte_fallback", false))
    return refused(path, fmt::format("model.byte_fallback: such a vocabulary has scores, which only its {} holds: "
                                     "wanted that file beside it",
                                     pieces_file));
  vocabulary out;
  out.words = words_of(keys->value("pre_tokenizer", json()));
  if (out.words.empty() || !keys->value("normalizer", json()).is_null())
    return refused(
        path,
        fmt::format(
            "pre_tokenizer: wanted GPT-2's, SmolLM's or Llama 3's way to cut words and no "
            "normalizer, got {}",
            keys->value("pre_tokenizer", json()).dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 200)));
  if (auto ok = add_words(path, model["vocab"], out); !ok) return fail(ok.error());
  if (auto ok = add_merges(path, model.value("merges", json()), out); !ok) return fail(ok.error());
  for (const auto& added : keys->value("added_tokens", json())) {
    if (!added.is_object() || !added.contains("id") || !added["id"].is_number_unsigned() ||
        added["id"].get<uint64_t>() >= max_vocabulary || !added.contains("content") || !added["content"].is_string())
      return refused(path, "added_tokens: wanted objects with id and content");
    const auto n = added["id"].get<size_t>();
    if (n >= out.entries.size()) out.entries.resize(n + 1, {"", token_kind::unused});
    out.entries[n] = {added["content"],
                      flag_of(added, "special", false) ? token_kind::control : token_kind::user_defined};
  }
  if (auto ok = add_special(path.parent_path(), out); !ok) return fail(ok.error());
  if (!out.end) mark_end_of_text(out);
  return out;
}

core::result<vocabulary> read_pieces(const fs::path& path) {
  const auto text = core::read_file(path, max_tokenizer_bytes);
  if (!text) return fail(text.error());
  if (core::begins_like_lfs_pointer(*text)) return fail(core::lfs_pointer_error((path).string(), *text));
  auto out = pieces_of(std::as_bytes(std::span(*text)));
  if (!out) return fail(out.error().in(fmt::format("'{}'", path.string())));
  if (auto ok = add_special(path.parent_path(), *out); !ok) return fail(ok.error());
  return out;
}

}  // namespace

vocabulary byte_vocabulary() {
  const byte_alphabet alphabet;
  vocabulary out;
  out.words = "gpt-2";
  for (uint32_t b = 0; b < 256; ++b) out.entries.push_back({alphabet.word_of(b), token_kind::normal});
  return out;
}

bool has_vocabulary(const fs::path& folder) {
  std::error_code e;
  return fs::exists(folder / pieces_file, e) || fs::exists(folder / pipeline_file, e) ||
         (fs::exists(folder / words_file, e) && fs::exists(folder / merges_file, e));
}

core::result<vocabulary> read_vocabulary(const fs::path& path) {
  std::error_code e;
  if (!fs::is_directory(path, e)) {
    if (path.extension() == ".model") return read_pieces(path);
    if (path.filename() == words_file) return read_words(path.parent_path());
    if (path.extension() == ".json") return read_pipeline(path);
  } else {
    if (fs::exists(path / pieces_file, e)) return read_pieces(path / pieces_file);
    if (fs::exists(path / pipeline_file, e)) return read_pipeline(path / pipeline_file);
    if (fs::exists(path / words_file, e)) return read_words(path);
  }
  return refused(path, fmt::format("wanted a {}, {}, {} with {}, or a folder with one of them", pieces_file,
                                   pipeline_file, words_file, merges_file));
}

}  // namespace troupe::data
