// Reads special tokens from files in the formats of transformers, and applies the files in the order of gguf-py's
// SpecialVocab.
#include "data/tokenizers/opening/special_token_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/number.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "data/tokenizers/files/tokenizer_folder.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr std::array kinds_of_special{"bos", "eos", "unk", "sep", "pad", "cls", "mask"};

std::string with_tail(const char* kind, const char* tail) { return std::string(kind) + tail; }

/// Collects the words that are added to a vocabulary, by token number.
class added_word_list {
 public:
  core::result<void> add(const fs::path& path, added_word word) {
    const auto [at, is_new] = words_.try_emplace(word.id, word);
    if (is_new) return {};
    if (at->second.text != word.text)
      return core::refused(fmt::format("'{}': the added token {} is '{}' here and '{}' elsewhere", path.string(),
                                       word.id, core::shown(word.text), core::shown(at->second.text)));
    at->second.is_special = at->second.is_special || word.is_special;
    at->second.takes_left = at->second.takes_left || word.takes_left;
    at->second.takes_right = at->second.takes_right || word.takes_right;
    at->second.is_single = at->second.is_single || word.is_single;
    return {};
  }

  core::result<void> add_object(const fs::path& path, uint64_t id, const json& from) {
    const auto& content = json_value_of(from, "content");
    if (id >= max_vocabulary || !content.is_string())
      return core::refused(fmt::format("'{}': added_tokens: wanted objects with id and content", path.string()));
    for (const char* flag : {"special", "lstrip", "rstrip", "single_word", "normalized"})
      if (const auto& said = json_value_of(from, flag); !said.is_null() && !said.is_boolean())
        return core::refused(fmt::format("'{}': added_tokens: '{}': {}: wanted true or false, got {}", path.string(),
                                         core::shown(content.get<std::string>()), flag, said.type_name()));
    TROUPE_TRY(add(path, {.text = content,
                          .id = static_cast<uint32_t>(id),
                          .is_special = json_flag_of(from, "special", false),
                          .takes_left = json_flag_of(from, "lstrip", false),
                          .takes_right = json_flag_of(from, "rstrip", false),
                          .is_single = json_flag_of(from, "single_word", false)}));
    // If several files describe a word, transformers uses the mark `normalized` of the file that is read last.
    words_.at(static_cast<uint32_t>(id)).is_normalized = json_flag_of(from, "normalized", true);
    return {};
  }

  /// Marks those added words as special that `keys` of tokenizer_config.json or another file name as special tokens.
  void mark_named(const json& keys) {
    for (const char* kind : kinds_of_special) mark(json_text_of(keys, with_tail(kind, "_token").c_str()));
    for (const char* list : {"additional_special_tokens", "extra_special_tokens"})
      for (const auto& one : json_value_of(keys, list)) {
        if (one.is_string()) mark(one);
        mark(json_text_of(one, "content"));
      }
  }

  [[nodiscard]] std::vector<added_word> words() && {
    std::vector<added_word> out;
    for (auto& [id, word] : words_) out.push_back(std::move(word));
    return out;
  }

 private:
  void mark(const std::string& text) {
    for (auto& [id, word] : words_)
      if (word.text == text) word.is_special = true;
  }

  std::map<uint32_t, added_word> words_;
};

/// Reads the special tokens and templates from all files of one tokenizer's folder, and combines them.
class special_token_reader {
 public:
  special_token_reader(const fs::path& folder, const token_finder& number_of, uint64_t tokens)
      : folder_(folder), number_of_(number_of), tokens_(tokens) {}

  core::result<special_tokens> read() {
    const std::array<std::pair<const char*, json*>, 5> files{{{"tokenizer.json", &pipeline_},
                                                              {"tokenizer_config.json", &config_},
                                                              {"special_tokens_map.json", &map_},
                                                              {"config.json", &model_},
                                                              {"generation_config.json", &generation_}}};
    for (const auto& [name, place] : files) {
      TROUPE_ASSIGN(auto read, read_json_if_there(folder_ / name));
      *place = std::move(read);
    }
    has_config_ = config_.is_object() && !config_.empty();
    for (const char* kind : kinds_of_special) names_[kind] = json_text_of(config_, with_tail(kind, "_token").c_str());
    if (pipeline_.is_object()) read_post_processors();
    take_names();
    take_numbers(model_);
    for (const char* kind : kinds_of_special) set_named(kind, json_text_of(map_, with_tail(kind, "_token").c_str()));
    take_numbers(generation_);
    for (const auto* from : {&model_, &generation_}) take_first_numbers(*from);
    for (const auto& [kind, text] : around_) set_named(kind, text);
    TROUPE_TRY(read_templates());
    if (out_.begin) out_.lost_begin.clear();
    if (out_.end) out_.lost_end.clear();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::optional<uint32_t>* place_of(std::string_view kind) {
    if (kind == "bos") return &out_.begin;
    if (kind == "eos") return &out_.end;
    if (kind == "unk") return &out_.unknown;
    if (kind == "sep") return &out_.separator;
    if (kind == "pad") return &out_.padding;
    if (kind == "mask") return &out_.mask;
    if (kind == "eot") return &out_.end_of_turn;
    if (kind == "eom") return &out_.end_of_message;
    return &classifier_;
  }

  void set(std::string_view kind, std::optional<uint64_t> number) {
    auto* const place = place_of(kind);
    if (!*place && number && *number < tokens_) *place = static_cast<uint32_t>(*number);
  }

  /// Sets a special token (`kind`) to the token with the text `text`, searched first among added words, then in the
  /// vocabulary, as in transformers.
  void set_named(std::string_view kind, const std::string& text) {
    if (text.empty()) return;
    std::optional<uint64_t> number;
    for (const auto& added : json_value_of(pipeline_, "added_tokens"))
      if (const auto& id = json_value_of(added, "id");
          json_text_of(added, "content") == text && id.is_number_unsigned())
        number = number.value_or(id.get<uint64_t>());
    if (!number) number = number_of_(text);
    if (number && *number < tokens_) out_.named.push_back(static_cast<uint32_t>(*number));
    if (!number && kind == "bos") out_.lost_begin = text;
    if (!number && kind == "eos") out_.lost_end = text;
    set(kind, number);
  }

  void take_names() {
    const auto flag = [&](const char* key, std::optional<bool>& place) {
      if (const auto& value = json_value_of(config_, key); value.is_boolean()) place = value.get<bool>();
    };
    flag("add_bos_token", out_.adds_begin);
    flag("add_eos_token", out_.adds_end);
    flag("add_sep_token", out_.adds_separator);
    for (const auto& [kind, text] : names_) set_named(kind, text);
  }

  static std::optional<uint64_t> number_in(const json& from, const std::string& key) {
    const auto& value = json_value_of(from, key.c_str());
    return value.is_number_unsigned() ? std::optional(value.get<uint64_t>()) : std::nullopt;
  }

  /// Reads the numbers of special tokens from keys such as `bos_token_id`, also within `text_config`, where models of
  /// several modalities have them.
  void take_numbers(const json& from) {
    for (const auto& [kind, text] : names_) {
      const std::string key = kind + "_token_id";
      const bool is_said = !json_value_of(from, key.c_str()).is_null();
      set(kind, number_in(is_said ? from : json_value_of(from, "text_config"), key));
    }
  }

  void take_first_numbers(const json& from) {
    for (const char* kind : {"bos", "eos"})
      if (const auto& list = json_value_of(from, with_tail(kind, "_token_id").c_str());
          list.is_array() && !list.empty() && list[0].is_number_unsigned())
        set(kind, list[0].get<uint64_t>());
  }

  static std::string special_id(const json& item) { return json_text_of(json_value_of(item, "SpecialToken"), "id"); }
  static std::string sequence_id(const json& item) { return json_text_of(json_value_of(item, "Sequence"), "id"); }

  void read_post_processors() {
    auto& [bos, eos, cls, sep] = now_;
    bos = names_["bos"], eos = names_["eos"], cls = names_["cls"], sep = names_["sep"];
    if (bos.empty() && has_config_) names_["bos"] = bos = cls;
    if (eos.empty() && has_config_) names_["eos"] = eos = sep;
    const auto& all = json_value_of(pipeline_, "post_processor");
    const auto& list = json_value_of(all, "processors");
    if (list.is_array())
      for (const auto& one : list) read_post_processor(one);
    else
      read_post_processor(all);
  }

  void read_post_processor(const json& processor) {
    const auto type = json_text_of(processor, "type");
    if (type == "RobertaProcessing") read_roberta(processor);
    if (type == "TemplateProcessing") read_template_processing(processor);
  }

  void read_roberta(const json& processor) {
    out_.adds_begin = out_.adds_end = out_.adds_separator = true;
    const auto word = [&](const char* key) {
      const auto& pair = json_value_of(processor, key);
      return pair.is_array() && !pair.empty() && pair[0].is_string() ? pair[0].get<std::string>() : std::string();
    };
    around_["bos"] = word("cls"), around_["eos"] = word("sep");
    if (now_.cls.empty() && has_config_) names_["cls"] = now_.cls = around_["bos"];
    if (now_.sep.empty() && has_config_) names_["sep"] = now_.sep = around_["eos"];
  }

  /// Reads the special tokens from a post-processor of the type TemplateProcessing: the template of a single text has
  /// the tokens before and after a text, the template of a pair the token between two texts.
  void read_template_processing(const json& processor) {
    auto& [bos, eos, cls, sep] = now_;
    const auto& single = json_value_of(processor, "single");
    std::string first, last;
    if (single.is_array() && single.size() > 1) {
      first = special_id(single.front()), last = special_id(single.back());
      if (!first.empty()) {
        if (!has_config_) bos = around_["bos"] = first;
        out_.adds_begin = first == bos || first == cls;
      }
      if (!last.empty()) {
        if (!has_config_)
          around_["eos"] = last;
        else if (last != eos)
          give_up_end(last);
        eos = last;
        out_.adds_end = true;
      }
    }
    read_pair(json_value_of(processor, "pair"), first, last);
  }

  /// Handles a post-processor that ends texts with the token `last` instead of the end-of-text token of
  /// tokenizer_config.json: `last` becomes the end of text, and the other token the end of a turn in a conversation.
  void give_up_end(const std::string& last) {
    for (const char* kind : {"eot", "eom"})
      if (!names_.contains(kind)) {
        names_[kind] = now_.eos;
        break;
      }
    names_["eos"] = last;
  }

  void read_pair(const json& pair, const std::string& first, const std::string& last) {
    if (!pair.is_array() || pair.empty()) return;
    size_t begin = !first.empty() && special_id(pair.front()) == first ? 1 : 0, end = pair.size();
    if (!last.empty() && special_id(pair.back()) == last) --end;
    if (begin >= end || sequence_id(pair[begin]) != "A" || sequence_id(pair[end - 1]) != "B" || end - begin < 3) return;
    const auto separates = [&](const json& item) {
      const auto id = special_id(item);
      return !id.empty() && (id == now_.sep || id == now_.eos);
    };
    const bool two = end - begin == 4;
    out_.adds_separator = (separates(pair[begin + 1]) && last.empty()) || (two && separates(pair[begin + 2]));
    if (*out_.adds_separator && now_.sep.empty() && has_config_) names_["sep"] = now_.eos;
  }

  core::result<void> read_templates() {
    if (const auto& said = json_value_of(config_, "chat_template"); !said.is_null()) {
      take_template(said);
      return {};
    }
    std::error_code e;
    if (fs::exists(folder_ / "chat_template.jinja", e)) return read_template_files();
    TROUPE_ASSIGN(const auto file, read_json_if_there(folder_ / "chat_template.json"));
    take_template(json_value_of(file, "chat_template"));
    return {};
  }

  core::result<void> read_template_files() {
    TROUPE_ASSIGN(auto text, core::read_file(folder_ / "chat_template.jinja", max_tokenizer_bytes));
    out_.chat_template = std::move(text);
    std::vector<fs::path> others;
    std::error_code e;
    for (const auto& entry : fs::directory_iterator(folder_ / "additional_chat_templates", e))
      if (entry.path().extension() == ".jinja") others.push_back(entry.path());
    std::ranges::sort(others);
    for (const auto& path : others) {
      TROUPE_ASSIGN(auto other, core::read_file(path, max_tokenizer_bytes));
      add_template(path.stem().string(), std::move(other));
    }
    return {};
  }

  void take_template(const json& said) {
    if (said.is_string()) out_.chat_template = said;
    if (!said.is_array()) return;
    for (const auto& one : said)
      if (const auto& text = json_value_of(one, "template"); text.is_string())
        add_template(json_text_of(one, "name"), text);
  }

  /// Adds a chat template. Characters of its name other than letters, digits and `_` are replaced, because the name
  /// becomes a part of a GGUF key.
  void add_template(std::string name, std::string text) {
    for (char& c : name)
      if ((c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')) c = '_';
    if (name == "default")
      out_.chat_template = std::move(text);
    else if (!name.empty())
      out_.other_templates.emplace_back(std::move(name), std::move(text));
  }

  struct current_names {
    std::string bos, eos, cls, sep;
  };

  const fs::path& folder_;
  const token_finder& number_of_;
  uint64_t tokens_;
  json pipeline_, config_, map_, model_, generation_;
  bool has_config_ = false;
  std::map<std::string, std::string>
      names_;  ///< [kind of token, such as bos]: its text in tokenizer_config.json or tokenizer.json
  /// [kind of token]: text of the token that the post-processor in tokenizer.json puts before or after a text.
  std::map<std::string, std::string> around_;
  current_names now_;
  std::optional<uint32_t> classifier_;
  special_tokens out_;
};

}  // namespace

core::result<std::vector<added_word>> read_added_words(const fs::path& folder) {
  added_word_list out;
  const fs::path pipeline_path = folder / "tokenizer.json", config_path = folder / "tokenizer_config.json",
                 words_path = folder / "added_tokens.json", map_path = folder / "special_tokens_map.json";
  TROUPE_ASSIGN(const auto pipeline, read_json_if_there(pipeline_path));
  for (const auto& added : json_value_of(pipeline, "added_tokens")) {
    const auto& id = json_value_of(added, "id");
    TROUPE_TRY(out.add_object(pipeline_path, id.is_number_unsigned() ? id.get<uint64_t>() : max_vocabulary, added));
  }
  TROUPE_ASSIGN(const auto config, read_json_if_there(config_path));
  for (const auto& [key, added] : json_value_of(config, "added_tokens_decoder").items()) {
    TROUPE_TRY(out.add_object(config_path, core::number_of<uint64_t>(key).value_or(max_vocabulary), added));
  }
  TROUPE_ASSIGN(const auto words, read_json_if_there(words_path));
  if (words.is_object())
    for (const auto& [text, id] : words.items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= max_vocabulary || text.empty())
        return core::refused(fmt::format("'{}': the word '{}': wanted a number below {}", words_path.string(),
                                         core::shown(text), max_vocabulary));
      TROUPE_TRY(out.add(words_path, {.text = text, .id = id.get<uint32_t>()}));
    }
  out.mark_named(config);
  TROUPE_ASSIGN(const auto map, read_json_if_there(map_path));
  out.mark_named(map);
  return std::move(out).words();
}

core::result<special_tokens> read_special_tokens(const fs::path& folder, const token_finder& number_of,
                                                 uint64_t tokens) {
  return special_token_reader(folder, number_of, tokens).read();
}

}  // namespace troupe::data
