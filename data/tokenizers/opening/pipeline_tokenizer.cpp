#include "data/tokenizers/opening/pipeline_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/files/tokenizer_folder.hpp"
#include "data/tokenizers/opening/special_token_files.hpp"
#include "data/tokenizers/text/decoder.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/text/normalizer.hpp"
#include "data/tokenizers/text/text_cutter.hpp"
#include "data/tokenizers/text/text_rules.hpp"
#include "data/tokenizers/words/added_finder.hpp"
#include "data/tokenizers/words/word_model.hpp"

namespace troupe::data {
namespace {

using json = nlohmann::json;

/// Returns `text` with U+FFFD in place of bytes that are not UTF-8, as most programs read them: one for each truncated
/// character, and one for each other byte.
std::string with_replacements(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t sound = core::utf8_prefix(text);
    out += text.substr(0, sound);
    text.remove_prefix(sound);
    if (text.empty()) break;
    size_t cut = 1;
    for (const size_t bytes : {size_t{2}, size_t{3}})
      for (const char* rest : {"\x80", "\x80\x80"})
        if (bytes <= text.size() && core::utf8_character(std::string(text.substr(0, bytes)) + rest) > bytes)
          cut = bytes;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(cut);
  }
  return out;
}

/// The opened steps of a tokenizer.json.
struct pipeline_parts {
  normalizer changes;
  text_cutter cutter;
  std::unique_ptr<word_model> model;
  decoder decodes;
  added_finder verbatim;               ///< added words that are found in texts as they are
  added_finder normalized;             ///< added words that are found in normalized text
  std::vector<std::string> text_of{};  ///< [token]: its text; empty for numbers without a token
};

class pipeline_tokenizer final : public tokenizer {
 public:
  pipeline_tokenizer(pipeline_parts parts, tokenizer_description description) : parts_(std::move(parts)) {
    description_ = std::move(description);
    begins_matter_ = parts_.changes.acts_at_begin() || parts_.cutter.adds_space();
  }

  core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) override {
    if (core::is_utf8(text)) return encode_whole({.text = text}, out);
    if (!parts_.cutter.is_byte_level()) {
      const auto made = with_replacements(text);
      return encode_whole({.text = made}, out);
    }
    // Bytes that are not UTF-8 are encoded as separate words, so that decoding restores every text.
    for (size_t at = 0; at < text.size();) {
      const auto sound = text.substr(at, core::utf8_prefix(text.substr(at)));
      TROUPE_TRY(encode_whole({.text = sound, .is_begin = at == 0}, out));
      at += sound.size();
      const size_t broken = at;
      while (at < text.size() && core::utf8_character(text.substr(at)) == 0) ++at;
      if (at > broken) TROUPE_TRY(parts_.model->encode(text.substr(broken, at - broken), out));
    }
    return {};
  }

  core::result<size_t> encode_part(const text_part& part, std::vector<uint32_t>& out) override {
    parts_.cutter.forget();
    if (!part.is_end && !(parts_.verbatim.may_divide_texts() && parts_.normalized.may_divide_texts())) return size_t{0};
    const auto text = part.is_end ? part.text : part.text.substr(0, core::utf8_whole(part.text));
    size_t known = 0, at = 0, word = 0, tokens = out.size();
    for (const auto& added : parts_.verbatim.find(text, part.is_end, known)) {
      const segment before{.text = text.substr(at, added.begin - at),
                           .is_begin = part.is_begin || at > 0,
                           .begins_document = part.is_begin && at == 0};
      TROUPE_TRY(encode_closed(before, out));
      word = added.begin, tokens = out.size();
      out.push_back(added.token);
      at = added.end;
    }
    const segment last{.text = text.substr(at, known - at),
                       .is_begin = part.is_begin || at > 0,
                       .begins_document = part.is_begin && at == 0};
    if (part.is_end) {
      TROUPE_TRY(encode_closed(last, out));
      return part.text.size();
    }
    TROUPE_ASSIGN(const size_t n, encode_open(last, out));
    if (n > 0 || at == 0 || !begins_matter_) return at + n;
    // The part after an added word is treated as the beginning of a text, but the next part would lack this, so the
    // next part begins with the added word.
    out.resize(tokens);
    return word;
  }

  [[nodiscard]] std::string decode(std::span<const uint32_t> ids) const override {
    std::vector<std::string> texts;
    for (const uint32_t id : ids)
      if (id < parts_.text_of.size() && !parts_.text_of[id].empty()) texts.push_back(parts_.text_of[id]);
    return parts_.decodes.text_of(std::move(texts));
  }

 private:
  /// Text between two added words, or the rest of such a text.
  struct segment {
    std::string_view text;
    bool is_begin = true;         ///< true: no part of the segment was encoded earlier
    bool begins_document = true;  ///< true: the segment is the beginning of a document
  };
  /// A word that was cut from a segment, or a normalized added word in it.
  struct item {
    size_t place = 0;  ///< byte of the normalized text at which the item begins
    cut_word word{};
    std::optional<uint32_t> token{};  ///< token of an added word
    bool may_divide = false;          ///< true: the text may be divided before the item
  };

  core::result<void> encode_whole(const text_part& part, std::vector<uint32_t>& out) {
    TROUPE_TRY(encode_part(part, out));
    return {};
  }

  /// Returns the normalized text of a segment, which `made` owns unless the text is unchanged.
  core::result<std::string_view> normalized(std::string_view text, text_ends ends, std::string& made) const {
    if (parts_.changes.is_nothing()) return text;
    TROUPE_ASSIGN(made, parts_.changes.apply(text, ends));
    return std::string_view(made);
  }

  core::result<void> encode_closed(const segment& of, std::vector<uint32_t>& out) {
    if (of.text.empty()) return {};
    std::string made;
    TROUPE_ASSIGN(const auto text, normalized(of.text, {.has_begin = of.is_begin, .has_end = true}, made));
    size_t known = 0, at = 0;
    const auto places = parts_.normalized.find(text, true, known);
    for (size_t i = 0; i <= places.size(); ++i) {
      const size_t end = i < places.size() ? places[i].begin : text.size();
      words_.clear();
      TROUPE_TRY(parts_.cutter.cut(text.substr(at, end - at), about(of, at, false), words_));
      for (const auto& word : words_) TROUPE_TRY(parts_.model->encode(word.text, out));
      if (i == places.size()) break;
      out.push_back(places[i].token);
      at = places[i].end;
    }
    parts_.cutter.forget();
    return {};
  }

  static cut_text about(const segment& of, size_t at, bool is_open) {
    return {.begins_document = of.begins_document && at == 0, .is_begin = of.is_begin || at > 0, .is_open = is_open};
  }

  /// Encodes the words at the beginning of a segment that no further text can change, and returns the number of their
  /// bytes in the segment.
  core::result<size_t> encode_open(const segment& of, std::vector<uint32_t>& out) {
    const size_t seen = parts_.changes.is_nothing() ? of.text.size() : division_before(of.text, of.text.size());
    if (seen == 0) return size_t{0};
    std::string made;
    TROUPE_ASSIGN(const auto text,
                  normalized(of.text.substr(0, seen), {.has_begin = of.is_begin, .has_end = false}, made));
    size_t known = 0;
    TROUPE_TRY(find_items(of, text, known));
    // Tries the places at which the segment may be divided, from its end on; `place` is the same place in the
    // normalized text.
    size_t division = seen, place = text.size(), items = items_.size();
    while (division > 0) {
      while (items > 0 && items_[items - 1].place > place) --items;
      if (items == 0) return size_t{0};
      const auto& item = items_[items - 1];
      const bool is_before_added = (division < of.text.size() && parts_.verbatim.begins_at(of.text, division)) ||
                                   parts_.normalized.begins_at(text, place);
      if (!is_before_added && place < known) {
        const size_t within = place == item.place ? 0 : byte_at(item, place);
        const bool is_between = within == 0 && place == item.place && item.may_divide;
        const bool is_within = within > 0 && item.word.is_open && parts_.cutter.may_divide_words() &&
                               parts_.model->may_divide(item.word.text, within);
        if (is_between || is_within) {
          for (size_t i = 0; i + 1 < items; ++i) TROUPE_TRY(encode_item(items_[i], out));
          if (is_within) TROUPE_TRY(parts_.model->encode(item.word.text.substr(0, within), out));
          return division;
        }
      }
      const size_t before = division_before(of.text, division);
      if (before == 0) break;
      std::string stretch;
      TROUPE_ASSIGN(const auto changed, normalized(of.text.substr(before, division - before),
                                                   {.has_begin = false, .has_end = false}, stretch));
      place -= std::min(place, changed.size());
      division = before;
    }
    return size_t{0};
  }

  /// Returns the last place before byte `at` at which the text may be divided before it is normalized; 0 if there is
  /// none.
  [[nodiscard]] size_t division_before(std::string_view text, size_t at) const {
    while (at > 0) {
      at = core::utf8_begin_before(text, at);
      if (at > 0 && (parts_.changes.is_nothing() || parts_.changes.divides(text, at))) break;
    }
    return at;
  }

  /// Returns the byte of a word that corresponds to a place of the normalized text; 0 if none does.
  [[nodiscard]] static size_t byte_at(const item& in, size_t place) {
    const auto& word = in.word;
    const size_t shift = in.place - (word.text.empty() ? 0 : word.place_of(0));
    if (word.places == nullptr) return place > in.place && place - in.place < word.text.size() ? place - in.place : 0;
    const size_t* const end = word.places + word.text.size();
    const size_t* const found = std::lower_bound(word.places, end, place - shift);
    return found == end || *found != place - shift ? 0 : static_cast<size_t>(found - word.places);
  }

  /// Sets items_ to the words and added words in `text`, the normalized text of a segment that may continue. Sets
  /// `known` to the length of the text that was examined for added words.
  core::result<void> find_items(const segment& of, std::string_view text, size_t& known) {
    items_.clear();
    const auto places = parts_.normalized.find(text, false, known);
    size_t at = 0;
    for (size_t i = 0; i <= places.size(); ++i) {
      const bool is_last = i == places.size();
      const size_t end = is_last ? std::max(known, at) : places[i].begin;
      words_.clear();
      TROUPE_TRY(parts_.cutter.cut(text.substr(at, end - at), about(of, at, is_last), words_));
      for (const auto& word : words_) {
        item one{.place = at + word.place_of(0), .word = word};
        // Text that a step has added has the place of the next character. If several words have one place, only the
        // text before the first of them may be divided.
        one.may_divide = word.cut_by && !word.begins_in_match && parts_.cutter.may_divide_after(*word.cut_by) &&
                         (items_.empty() || items_.back().place < one.place);
        items_.push_back(one);
      }
      if (is_last) break;
      items_.push_back({.place = places[i].begin, .token = places[i].token});
      at = places[i].end;
    }
    return {};
  }

  core::result<void> encode_item(const item& one, std::vector<uint32_t>& out) {
    if (!one.token) return parts_.model->encode(one.word.text, out);
    out.push_back(*one.token);
    return {};
  }

  pipeline_parts parts_;
  bool begins_matter_ = false;  ///< true: the beginning of a text is changed in another way than its rest
  std::vector<cut_word> words_;
  std::vector<item> items_;
};

/// Refuses a post-processor that is not known.
core::result<void> check_post_processor(const json& keys, uint32_t depth) {
  if (keys.is_null()) return {};
  const auto type = json_text_of(keys, "type");
  if (type == "Sequence" && depth < max_pipeline_depth) {
    for (const auto& one : json_value_of(keys, "processors")) TROUPE_TRY(check_post_processor(one, depth + 1));
    return {};
  }
  for (const char* known : {"TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel"})
    if (type == known) return {};
  return core::refused(fmt::format("the type '{}' is not supported", core::shown(type)));
}

/// Refuses an `add_prefix_space` in the folder's tokenizer_config.json that differs from tokenizer.json, because
/// transformers would change the tokenizer accordingly.
core::result<void> check_prefix_space(const std::filesystem::path& folder, bool cutter_adds, bool normalizer_adds) {
  TROUPE_ASSIGN(const auto keys, read_json_if_there(folder / "tokenizer_config.json"));
  const bool adds = cutter_adds || normalizer_adds;
  const bool said = json_flag_of(keys, "add_prefix_space", adds);
  if (said == adds || (normalizer_adds && !cutter_adds)) return {};
  return core::refused(fmt::format("'{}': add_prefix_space: wanted {}, as in the tokenizer.json next to it, got {}",
                                   (folder / "tokenizer_config.json").string(), adds, said));
}

}  // namespace

core::result<bool> needs_pipeline(const std::filesystem::path& path, const json& keys, special_words special) {
  const auto& version = json_value_of(keys, "version");
  if (!version.is_null() && json_text_of(keys, "version") != "1.0")
    return core::refused(
        fmt::format("'{}': version: wanted \"1.0\", got {}", path.string(), core::shown(version.dump())));
  const auto& model = json_value_of(keys, "model");
  const auto& words = json_value_of(model, "vocab");
  if (!words.is_object() && !words.is_array()) return false;
  if (!json_value_of(model, "type").is_null() && json_text_of(model, "type") != "BPE") return true;
  const auto rules = text_rules_of(path, keys);
  if (!rules || !check_pair_keys(model) || json_flag_of(model, "byte_fallback", false)) return true;
  TROUPE_ASSIGN(const auto added, read_added_words(path.parent_path()));
  return std::ranges::any_of(added, [&](const added_word& w) {
    const bool has_blank = w.text.find_first_of(" \t\r\n") != std::string::npos;
    return (special == special_words::tokens || !w.is_special) &&
           (w.takes_left || w.takes_right || w.is_single || has_blank || (w.is_normalized && rules->composes));
  });
}

core::result<std::unique_ptr<tokenizer>> open_pipeline_tokenizer(const std::filesystem::path& path, const json& keys,
                                                                 special_words special_text) {
  const auto folder = path.parent_path();
  const auto at = [&](const char* key) { return fmt::format("'{}': {}", path.string(), key); };
  if (auto ok = check_known_keys(keys, {"version", "truncation", "padding", "added_tokens", "normalizer",
                                        "pre_tokenizer", "post_processor", "decoder", "model"});
      !ok)
    return fail(ok.error().in(fmt::format("'{}'", path.string())));
  pipeline_parts parts;
  auto changes = normalizer::make(json_value_of(keys, "normalizer"));
  if (!changes) return fail(changes.error().in(at("normalizer")));
  parts.changes = std::move(*changes);
  auto cutter = text_cutter::make(json_value_of(keys, "pre_tokenizer"), !parts.changes.is_nothing());
  if (!cutter) return fail(cutter.error().in(at("pre_tokenizer")));
  parts.cutter = std::move(*cutter);
  // The package puts the sign before a word if the first character of the text is still there, which a normalizer may
  // have removed.
  if (parts.cutter.adds_to_document() && parts.changes.removes())
    return core::refused(at("pre_tokenizer") +
                         ": Metaspace: prepend_scheme: first after a normalizer that removes characters is not "
                         "supported");
  auto model = read_word_model(json_value_of(keys, "model"), parts.cutter.is_byte_level());
  if (!model) return fail(model.error().in(at("model")));
  parts.model = std::move(model->model);
  auto decodes = decoder::make(json_value_of(keys, "decoder"));
  if (!decodes) return fail(decodes.error().in(at("decoder")));
  parts.decodes = std::move(*decodes);
  if (auto ok = check_post_processor(json_value_of(keys, "post_processor"), 0); !ok)
    return fail(ok.error().in(at("post_processor")));
  TROUPE_TRY(check_prefix_space(folder, parts.cutter.adds_space(), parts.changes.acts_at_begin()));

  parts.text_of = model->words.text_of;
  TROUPE_ASSIGN(auto words, read_added_words(folder));
  const token_finder in_model = [&](std::string_view text) { return model->words.find(std::string(text)); };
  TROUPE_TRY(check_added_words(
      folder, words, in_model,
      [&](uint32_t t) { return t < parts.text_of.size() ? std::string_view(parts.text_of[t]) : std::string_view(); },
      "tokenizer.json"));
  for (const auto& w : words) {
    if (w.id >= parts.text_of.size()) parts.text_of.resize(w.id + 1);
    parts.text_of[w.id] = w.text;
  }
  const token_finder number_of = [&](std::string_view text) -> std::optional<uint32_t> {
    const auto added = std::ranges::find_if(words, [&](const added_word& w) { return w.text == text; });
    return added == words.end() ? in_model(text) : std::optional(added->id);
  };
  TROUPE_ASSIGN(const auto special, read_special_tokens(folder, number_of, parts.text_of.size()));
  TROUPE_TRY(check_end_of_text(folder, special, "tokenizer.json"));

  tokenizer_description description{.kind = model->kind,
                                    .vocab_size = parts.text_of.size(),
                                    .end_of_text = special.end ? special.end : number_of("<|endoftext|>"),
                                    .digest = {},
                                    .lost_bytes = std::move(model->lost_bytes),
                                    .marked = marked_in(special, words)};
  // The package decodes an added word that is found in normalized text as its normalized text, too.
  for (const auto& w : words) {
    if (!w.is_normalized) continue;
    TROUPE_ASSIGN(parts.text_of[w.id], parts.changes.apply(w.text, {}));
  }
  if (special_text == special_words::ordinary) {
    std::erase_if(words, [&](const added_word& w) { return w.is_special || w.id == description.end_of_text; });
  } else {
    auto named = special.named;
    if (description.end_of_text) named.push_back(*description.end_of_text);
    const auto text_of = [&](uint32_t t) {
      return t < parts.text_of.size() ? std::string_view(parts.text_of[t]) : std::string_view();
    };
    add_named_words(named, text_of, words);
  }
  std::vector<added_word> verbatim, normalized;
  std::string marks;
  for (auto& w : words) {
    marks += fmt::format("{} {}{}{}{} {}\n", w.id, w.is_normalized ? "n" : "v", w.takes_left ? "l" : "",
                         w.takes_right ? "r" : "", w.is_single ? "s" : "", w.text);
    if (w.is_normalized) w.text = parts.text_of[w.id];
    (w.is_normalized ? normalized : verbatim).push_back(w);
  }
  parts.verbatim = added_finder(std::move(verbatim));
  parts.normalized = added_finder(std::move(normalized));
  const auto dumped = [&](const char* key) {
    return json_value_of(keys, key).dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
  };
  description.digest = digest_of({model->identity, dumped("normalizer"), dumped("pre_tokenizer"), marks});
  return std::make_unique<pipeline_tokenizer>(std::move(parts), std::move(description));
}

}  // namespace troupe::data
