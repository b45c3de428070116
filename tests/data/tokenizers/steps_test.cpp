// Compares the steps of tokenizer.json with the package `tokenizers`: normalizers, pre-tokenizers, models, added words
// and decoders; also tests what is refused.
#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/text/pattern_machine.hpp"
#include "data/tokenizers/text/text_rules.hpp"
#include "data/tokenizers/text/word_cutter.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(steps)

using namespace troupe;
using namespace troupe::tests;

namespace {

const nlohmann::json& made_steps() {
  static const auto all = nlohmann::json::parse(content_of(fixture_path("tokenizer_steps.json")));
  return all;
}

/// Calls `each` with every tokenizer of the fixture, its name, and what the package makes of the texts.
void for_steps(auto&& each) {
  for (const auto& [name, made] : made_steps()["made"].items()) {
    const scratch_folder at;
    const auto t = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", made["file"].dump()))));
    each(*t, name, made);
  }
}

/// Returns a tokenizer.json of the fixture with another value of a key.
nlohmann::json with_key(const char* name, const char* key, const char* value) {
  auto out = made_steps()["made"][name]["file"];
  out[nlohmann::json::json_pointer(key)] = nlohmann::json::parse(value);
  return out;
}

core::result<data::pattern_machine> machine_of(const std::string& expression) {
  TROUPE_ASSIGN(const auto tree, data::parse_pattern(expression));
  return data::pattern_machine::make(tree);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_of_all_kinds_are_those_of_the_real_package) {
  const auto& texts = made_steps()["text"];
  const auto& broken = made_steps()["broken"];
  for_steps([&](data::tokenizer& t, const std::string& name, const nlohmann::json& made) {
    for (size_t i = 0; i < texts.size(); ++i)
      BOOST_TEST(encoded(t, from_hex(texts[i])) == made["ids"][i].get<std::vector<uint32_t>>(),
                 name << ", text " << i << ": " << from_hex(texts[i]));
    // Bytes that are not UTF-8 stay in the text if a model reads bytes; other models read them as Python does.
    if (made["file"].dump().find("ByteLevel") != std::string::npos) return;
    for (size_t i = 0; i < broken.size(); ++i)
      BOOST_TEST(encoded(t, from_hex(broken[i])) == made["broken"][i].get<std::vector<uint32_t>>(),
                 name << ", broken text " << i);
  });
}

BOOST_AUTO_TEST_CASE(decoded_texts_are_those_of_the_real_package) {
  for_steps([&](data::tokenizer& t, const std::string& name, const nlohmann::json& made) {
    for (size_t i = 0; i < made["ids"].size(); ++i) {
      const auto wanted = from_hex(made["decoded"][i]);
      if (wanted.find("\xEF\xBF\xBD") != std::string::npos) continue;  // bytes that are no characters are not shown so
      BOOST_TEST(t.decode(made["ids"][i].get<std::vector<uint32_t>>()) == wanted, name << ", text " << i);
    }
  });
}

BOOST_AUTO_TEST_CASE(bytes_of_a_byte_level_model_come_back_whatever_they_are) {
  const scratch_folder at;
  const auto file = made_steps()["made"]["deepseek"]["file"].dump();
  const auto t = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", file))));
  for (const auto& hex : made_steps()["broken"]) BOOST_TEST(t->decode(encoded(*t, from_hex(hex))) == from_hex(hex));
}

BOOST_AUTO_TEST_CASE(texts_in_parts_have_the_tokens_of_the_whole_text_for_all_kinds) {
  std::mt19937_64 random(9);
  const auto& texts = made_steps()["text"];
  for_steps([&](data::tokenizer& t, const std::string& name, const nlohmann::json&) {
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (uint64_t n = 1 + random() % 4; n > 0; --n) text += from_hex(texts[random() % texts.size()]);
      const auto first_bytes = 1 + random() % 30;
      BOOST_REQUIRE_MESSAGE(in_pieces(t, text, first_bytes) == encoded(t, text),
                            name << ", " << first_bytes << " bytes: " << text);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_part_ends_at_no_place_that_an_earlier_step_would_cut_otherwise) {
  const std::vector<std::string> pieces{"a", "Be", "1", "23", ",", "..", " ", "   ", "\n", "\u00e9"};
  const scratch_folder at;
  std::mt19937_64 random(21);
  for (const char* steps :
       {R"({"type": "Digits"},
            {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": true})",
        R"({"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "WhitespaceSplit"})",
        R"({"type": "Split", "pattern": {"Regex": "[A-Z][a-z]"}, "behavior": "MergedWithNext", "invert": true},
            {"type": "WhitespaceSplit"})",
        R"({"type": "Split", "pattern": {"Regex": "\\d{2}"}, "behavior": "Removed", "invert": true},
            {"type": "Digits"})",
        R"({"type": "Split", "pattern": {"Regex": "[a-z]+\\d"}, "behavior": "Isolated", "invert": false},
            {"type": "Split", "pattern": {"Regex": "\\d"}, "behavior": "MergedWithNext", "invert": false})"}) {
    auto file = with_key("llama", "/normalizer", "null");
    file["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", nlohmann::json::parse("[" + std::string(steps) + "]")}};
    const auto t = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", file.dump()))));
    for (int i = 0; i < 200; ++i) {
      std::string text;
      for (uint64_t n = 1 + random() % 30; n > 0; --n) text += pieces[random() % pieces.size()];
      const auto first_bytes = 1 + random() % 30;
      BOOST_REQUIRE_MESSAGE(in_pieces(*t, text, first_bytes) == encoded(*t, text),
                            steps << ", " << first_bytes << " bytes: " << text);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_added_word_is_found_in_the_blanks_that_another_one_takes) {
  const scratch_folder at;
  auto file = with_key("llama", "/normalizer", "null");
  const auto number = [](const nlohmann::json& keys) { return keys["id"].get<uint32_t>(); };
  uint32_t next = 0;
  for (const auto& [word, id] : file["model"]["vocab"].items()) next = std::max(next, id.get<uint32_t>() + 1);
  for (const auto& added : file["added_tokens"]) next = std::max(next, number(added) + 1);
  for (const char* text : {"<right>", " sp"})
    file["added_tokens"].push_back({{"id", next++},
                                    {"content", text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", text[0] == '<'},
                                    {"normalized", false},
                                    {"special", false}});
  const auto t = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", file.dump()))));
  const auto found = encoded(*t, "<right>   sp<right> sp");
  BOOST_TEST((found == std::vector<uint32_t>{next - 2, next - 1, next - 2, next - 1}));
  for (uint64_t first_bytes = 1; first_bytes < 24; ++first_bytes)
    BOOST_TEST((in_pieces(*t, "<right>   sp<right> sp", first_bytes) == found), first_bytes);
}

BOOST_AUTO_TEST_CASE(an_added_word_of_blanks_is_no_token_where_the_word_before_it_has_taken_them) {
  const scratch_folder at;
  auto file = with_key("llama", "/normalizer", "null");
  const auto number = file["model"]["vocab"].at("\n").get<uint32_t>();
  file["added_tokens"].push_back({{"id", number},
                                  {"content", "\n"},
                                  {"single_word", false},
                                  {"lstrip", true},
                                  {"rstrip", true},
                                  {"normalized", false},
                                  {"special", false}});
  const auto t = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", file.dump()))));
  BOOST_TEST((encoded(*t, "\n\n") == std::vector<uint32_t>{number}));
  const std::string text = "\n\n \n  \n<u>\n\n";  // <u> is an added word, too
  const auto found = encoded(*t, text);
  BOOST_REQUIRE(found.size() == 3);
  BOOST_TEST(found.front() == number);
  BOOST_TEST(found.back() == number);
  for (uint64_t first_bytes = 1; first_bytes < text.size(); ++first_bytes)
    BOOST_TEST((in_pieces(*t, text, first_bytes) == found), first_bytes);
}

BOOST_AUTO_TEST_CASE(a_long_document_is_encoded_in_parts_by_steps_too) {
  // Without a pre-tokenizer a whole document is one word; it is divided where no merge reaches across.
  for_steps([&](data::tokenizer& t, const std::string& name, const nlohmann::json&) {
    if (name != "llama" && name != "deepseek" && name != "bert") return;
    std::string text;
    while (text.size() < 3 * data::piece_bytes) text += "the actors pass messages, \u4e2d\u6587 and 12345 bells. ";
    BOOST_TEST((in_pieces(t, text, data::piece_bytes) == encoded(t, text)), name);
  });
}

BOOST_AUTO_TEST_CASE(the_automaton_finds_the_words_that_pcre2_finds) {
  const std::vector<std::string> pieces{
      "a", "B", "the", " ",      "  ",     "\n",     "\r\n",   "\t",     "1",      "23",     "'s",        "'LL",
      "'", "!", ".",   "\u00e9", "\u4e2d", "\u3002", "\u3000", "\u00a0", "\u0663", "\u0301", "\U0001F600"};
  for (const auto pattern : {data::word_pattern::gpt2, data::word_pattern::llama3, data::word_pattern::qwen2}) {
    auto cutter = std::move(*check_ok(data::word_cutter::make(pattern)));
    const auto machine = std::move(*check_ok(machine_of(std::string(data::written_expression_of(pattern)))));
    std::mt19937_64 random(13);
    for (int i = 0; i < 500; ++i) {
      std::string text;
      for (uint64_t n = random() % 30; n > 0; --n) text += pieces[random() % pieces.size()];
      for (size_t at = 0; at < text.size();) {
        const size_t n = *check_ok(cutter.next(text, at));
        const auto found = *check_ok(machine.find(text, at, false));
        BOOST_REQUIRE_MESSAGE(found.is == data::pattern_find::kind::found && found.begin == at && found.end == at + n,
                              text << " at " << at);
        const auto whatever_follows = *check_ok(machine.find(text.substr(0, at + n), at, true));
        const auto known = *check_ok(cutter.next_whatever_follows(text.substr(0, at + n), at));
        BOOST_TEST((whatever_follows.is == data::pattern_find::kind::found) == known.has_value(), text << " at " << at);
        at += n;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(possessive_and_atomic_forms_and_repeats_are_those_of_oniguruma) {
  const auto words = [](const std::string& expression, const std::string& text) {
    const auto machine = std::move(*check_ok(machine_of(expression)));
    std::vector<std::string> out;
    for (size_t at = 0;;) {
      const auto found = *check_ok(machine.find(text, at, false));
      if (found.is != data::pattern_find::kind::found) return out;
      out.push_back(text.substr(found.begin, found.end - found.begin));
      at = found.end;
    }
  };
  using texts = std::vector<std::string>;
  BOOST_TEST((words("\\p{L}++\\d|.", "ab1c") == texts{"ab1", "c"}));
  BOOST_TEST((words("a++a|b", "aab") == texts{"b"}));  // the letters are not given back
  BOOST_TEST((words("(?>a+)a|b", "aab") == texts{"b"}));
  BOOST_TEST((words("a{1,2}+b", "aaaaab") == texts{"aaaaab"}));  // the + repeats what stands before it
  BOOST_TEST((words("\\w+(?=!)|\\w", "ab!cd") == texts{"ab", "c", "d"}));
  BOOST_TEST((words("[^(a[bc])]+", "xaybz(") == texts{"x", "y", "z"}));
  BOOST_TEST((words("(?i:'s)", "'S'\u017f's") == texts{"'S", "'\u017f", "'s"}));
  BOOST_TEST((words("\\w", "a\u00bd.") == texts{"a", "\u00bd"}));
  BOOST_TEST((words("[\\w]", "a\u00bd.") == texts{"a"}));  // in brackets a fraction of Latin-1 is none
  BOOST_TEST((words("[^\\w\\s]", "a\u00b2 .") == texts{"\u00b2", "."}));
  BOOST_TEST((words("a|ab|abc", "abc") == texts{"a"}));  // the first alternative, not the longest one
}

BOOST_AUTO_TEST_CASE(a_pattern_that_is_not_understood_is_refused_with_its_place) {
  for (const auto& [expression, words] : std::vector<std::pair<const char*, const char*>>{
           {"a(?!bc)", "the pattern 'a(?!bc)': look-ahead of more than one character at character 7 is not supported"},
           {"(?<=a)b", "this kind of group at character 2"},
           {"\\bword", "\\b at character 1"},
           {"(a)\\1", "\\1 at character 4"},
           {"^a", "^ at character 0"},
           {"\\p{Han}+", "the property 'Han'"},
           {"[a-z&&[^b]]", "&& at character"},
           {"[[:alpha:]]", "[: at character"},
           {"(ab)++", "a possessive quantifier or atomic group of more than one set"},
           {"a)b", ") at character 1"},
           {"(a", "a group without an end"},
           {"[a", "a set without an end"},
           {"a{2,1}", "{ at character 1"},
           {"\\xc3\\xa9", "a byte beyond ASCII at character 4"},
           {"(?i:\u00e9)", "ignoring case beyond ASCII"},
           {"(?i:ss)", "two letters that are one ligature"},
           {"a************", "more than 10 quantifiers in a row"},
           {"a*", "the pattern matches the empty text"}})
    check_failed(machine_of(expression), words);
}

BOOST_AUTO_TEST_CASE(steps_and_keys_that_are_not_known_are_refused_by_their_names) {
  const scratch_folder at;
  const auto refused = [&](const nlohmann::json& file, const std::string& words) {
    check_no_tokenizer(at.write("tokenizer.json", file.dump()), "tokenizer.json': " + words);
  };
  refused(with_key("bert", "/normalizer", R"({"type": "Nmt"})"), "normalizer: the type 'Nmt' is not supported");
  refused(with_key("bert", "/normalizer", R"({"type": "NFC", "extra": 1})"),
          "normalizer: the key 'extra' is not known");
  refused(with_key("bert", "/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})"),
          "normalizer: Precompiled: precompiled_charsmap: wanted a table of rules, got");
  refused(with_key("bert", "/pre_tokenizer", R"({"type": "UnicodeScripts"})"),
          "pre_tokenizer: the type 'UnicodeScripts' is not supported");
  refused(with_key("bert", "/pre_tokenizer",
                   R"({"type": "Split", "pattern": {"Regex": "\\bx"}, "behavior": "Isolated", "invert": false})"),
          "pre_tokenizer: Split: the pattern '\\bx': \\b at character 1 is not supported");
  refused(with_key("bert", "/pre_tokenizer",
                   R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Dropped", "invert": false})"),
          "pre_tokenizer: Split: behavior: wanted Removed, Isolated");
  refused(with_key("bert", "/model/type", R"("WordLevel")"), "model: type: wanted BPE, Unigram or WordPiece");
  refused(with_key("llama", "/model/dropout", "0.1"), "model: dropout: wanted null, since dropping merges at random");
  refused(with_key("bert", "/model/unk_token", R"("[no]")"), "model: unk_token: '[no]' is not in the vocabulary");
  refused(with_key("llama", "/model/merges", R"(["a zz"])"), "model: merges: 'a zz' uses words that are not");
  refused(with_key("bert", "/decoder", R"({"type": "CTC"})"), "decoder: the type 'CTC' is not supported");
  refused(with_key("bert", "/post_processor", R"({"type": "Other"})"),
          "post_processor: the type 'Other' is not supported");
  refused(with_key("bert", "/other", "1"), "the key 'other' is not known");
  for (const char* name : {"bert", "gpt-4o"})
    refused(with_key(name, "/version", R"("2.0")"), "version: wanted \"1.0\", got \"2.0\"");
  auto stripping = with_key("bert", "/normalizer", R"({"type": "Strip", "strip_left": true, "strip_right": false})");
  stripping["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
  refused(stripping, "pre_tokenizer: Metaspace: prepend_scheme: first after a normalizer that removes characters");
  for (const auto& [name, key, value, words] : std::vector<std::array<const char*, 4>>{
           {"llama", "/model/byte_fallback", R"("yes")", "model: byte_fallback: wanted true or false, got \"yes\""},
           {"deepseek", "/model/ignore_merges", "1", "model: ignore_merges: wanted true or false, got 1"},
           {"llama", "/model/end_of_word_suffix", "7", "model: end_of_word_suffix: wanted a text, got 7"},
           {"bert", "/model/max_input_chars_per_word", "-1",
            "model: max_input_chars_per_word: wanted a number from 0, got -1"},
           {"bert", "/normalizer", R"({"type": "BertNormalizer", "lowercase": "no"})",
            "normalizer: lowercase: wanted true or false, got \"no\""},
           {"bert", "/normalizer", R"({"type": "Precompiled"})",
            "normalizer: Precompiled: wanted the key 'precompiled_charsmap'"},
           {"bert", "/pre_tokenizer", R"({"type": "Digits", "individual_digits": 1})",
            "pre_tokenizer: Digits: individual_digits: wanted true or false, got 1"},
           {"bert", "/added_tokens/1/lstrip", "1", "added_tokens: '<mask>': lstrip: wanted true or false, got number"}})
    refused(with_key(name, key, value), words);
  auto many = nlohmann::json::array();
  for (int i = 0; i < 101; ++i) many.push_back({{"type", "NFC"}});
  auto long_file = with_key("bert", "/normalizer", R"({"type": "Sequence"})");
  long_file["normalizer"]["normalizers"] = many;
  refused(long_file, "normalizer: more than 100 steps are not supported");
  at.write("tokenizer_config.json", R"({"add_prefix_space": true})");
  check_no_tokenizer(at.write("tokenizer.json", made_steps()["made"]["deepseek"]["file"].dump()),
                     "tokenizer_config.json': add_prefix_space: wanted false, as in the tokenizer.json next to it");
}

BOOST_AUTO_TEST_CASE(a_text_without_tokens_is_refused_with_its_character) {
  const scratch_folder at;
  auto file = with_key("llama", "/model/byte_fallback", "false");
  file["model"]["unk_token"] = nullptr;
  const auto t = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", file.dump()))));
  std::vector<uint32_t> out;
  check_failed(t->encode("\u0b95", out), core::error_kind::bad_input, "the vocabulary has no token for '\u0b95'");
}

BOOST_AUTO_TEST_CASE(steps_count_in_the_digest) {
  const scratch_folder at;
  const auto digest = [&](const nlohmann::json& file) {
    return (*check_ok(data::open_tokenizer(at.write("tokenizer.json", file.dump()))))->description().digest;
  };
  const auto usual = digest(made_steps()["made"]["bert"]["file"]);
  BOOST_TEST(usual == digest(with_key("bert", "/decoder", "null")));  // decides no token
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, const char*>>{{"/normalizer", "null"},
                                                        {"/pre_tokenizer", R"({"type": "WhitespaceSplit"})"},
                                                        {"/model/max_input_chars_per_word", "5"},
                                                        {"/added_tokens/1/lstrip", "false"},
                                                        {"/added_tokens/2/normalized", "true"}})
    BOOST_TEST(usual != digest(with_key("bert", key, value)), key);
}

// An encoder is told by a tokenizer which tokens are special, and which one replaces those that it has to find; the
// words of both may be in the vocabulary alone.
BOOST_AUTO_TEST_CASE(special_tokens_and_the_mask_are_those_that_the_files_name) {
  const auto marked = [](const scratch_folder& at, const std::filesystem::path& path) {
    at.write("tokenizer_config.json", R"({"mask_token": "!", "pad_token": {"content": "#"}})");
    auto out = (*check_ok(data::open_tokenizer(path)))->marked();
    std::ranges::sort(out.special);
    const auto repeated = std::ranges::unique(out.special);
    out.special.erase(repeated.begin(), repeated.end());
    return out;
  };
  const scratch_folder steps, pairs;
  const auto bert = marked(steps, steps.write("tokenizer.json", made_steps()["made"]["bert"]["file"].dump()));
  BOOST_TEST((bert.mask == 1U && bert.special == std::vector<uint32_t>{0, 1, 2}));
  for (const char* file : {"vocab.json", "merges.txt"})
    pairs.write(file, content_of(fixture_path(std::string("gpt2/") + file)));
  const auto numbers = nlohmann::json::parse(content_of(fixture_path("gpt2/vocab.json")));
  const auto gpt2 = marked(pairs, pairs.path());
  BOOST_TEST((gpt2.mask == numbers["!"].get<uint32_t>()));
  BOOST_TEST(std::ranges::count(gpt2.special, numbers["#"].get<uint32_t>()) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
