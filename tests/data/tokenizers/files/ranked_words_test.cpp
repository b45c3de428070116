// Tests tokenizers whose files list words by rank: tiktoken's lists of Llama 3 and Qwen, and Mistral's tekken.json.
#include "data/tokenizers/files/ranked_words.hpp"

#include <fmt/format.h>

#include "data/tokenizers/files/word_merges.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/text/base64.hpp"
#include "data/tokenizers/vocabulary.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(ranked_words)

using namespace troupe;
using namespace troupe::tests;

namespace {

std::filesystem::path single(const std::string& name) { return fixture_path("single/" + name); }

/// Checks that `t` makes the tokens that the real package makes of the fixture's texts.
void check_ids(data::tokenizer& t, const std::string& name) {
  static const auto all = nlohmann::json::parse(content_of(single("ids.json")));
  for (const auto& [place, ids] : all[name].items()) {
    const auto text = from_hex(fixture()["text"][static_cast<size_t>(std::stoi(place))]);
    BOOST_TEST(encoded(t, text) == ids.get<std::vector<uint32_t>>(), name << ", string " << place);
    if (name != "qwen") BOOST_TEST(t.decode(ids.get<std::vector<uint32_t>>()) == text);  // Qwen's composes characters
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_list_of_tiktoken_makes_the_packages_tokens) {
  for (const char* path : {"llama3", "llama3/tokenizer.model"}) {
    auto t = std::move(*check_ok(data::open_tokenizer(single(path))));
    check_ids(*t, "llama3");
    BOOST_TEST(t->vocab_size() == 400U + 256);
    BOOST_TEST(t->end_of_text().value() == 401U);
    BOOST_TEST(encoded(*t, "<|end_of_text|>").size() > 1U);
  }
  for (const char* path : {"qwen", "qwen/qwen.tiktoken"}) {
    auto t = std::move(*check_ok(data::open_tokenizer(single(path))));
    check_ids(*t, "qwen");
    BOOST_TEST(t->vocab_size() == 400U + 208);
    BOOST_TEST(t->end_of_text().value() == 400U);
  }
}

BOOST_AUTO_TEST_CASE(qwens_list_composes_characters_by_current_tables) {
  // U+11938 is of Unicode 13; the package `tokenizers` leaves its parts as they are, unicodedata composes them.
  const std::string parts = "x\U00011935\U00011930y", whole = "x\U00011938y";
  const auto t = std::move(*check_ok(data::open_tokenizer(single("qwen"))));
  BOOST_TEST(t->decode(encoded(*t, parts)) == whole);
  for (const uint64_t first_bytes : {1U, 5U, 6U, 9U})
    BOOST_TEST(in_pieces(*t, parts, first_bytes) == encoded(*t, whole), first_bytes);
  // A list takes whole words before it merges, which no name of llama.cpp says of this pattern.
  check_failed(data::rules_name_at(single("qwen/qwen.tiktoken")), core::error_kind::unsupported, "ignore_merges");
}

BOOST_AUTO_TEST_CASE(blanks_that_end_a_text_are_one_word_with_the_line_break_before_them_for_cl100k) {
  // 256 bytes, and two words of blanks; tiktoken 0.14 makes [97, 257] of the first text.
  std::string list;
  uint32_t rank = 0;
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (uint32_t byte = 0; byte < 256; ++byte)
    list += fmt::format("{}{}== {}\n", digits[byte >> 2], digits[(byte & 3) << 4], rank++);
  list += fmt::format("ICA= {}\nCiAg {}\n", rank, rank + 1);
  const scratch_folder at;
  const auto t = std::move(*check_ok(data::open_tokenizer(at.write("cl100k_base.tiktoken", list))));
  BOOST_TEST((encoded(*t, "a\n  ") == std::vector<uint32_t>{97, 257}));
  BOOST_TEST((encoded(*t, "a\n  .") == std::vector<uint32_t>{97, 10, 32, 32, 46}));
  for (const uint64_t first_bytes : {1U, 2U, 3U})
    BOOST_TEST((in_pieces(*t, "a\n  ", first_bytes) == std::vector<uint32_t>{97, 257}), first_bytes);
}

BOOST_AUTO_TEST_CASE(a_tekken_json_makes_mistrals_tokens) {
  auto t = std::move(*check_ok(data::open_tokenizer(single("tekken.json"))));
  check_ids(*t, "tekken");
  BOOST_TEST(t->vocab_size() == 415U);
  BOOST_TEST(t->end_of_text().value() == 2U);
  const auto v = check_ok(data::read_vocabulary(single("tekken.json")));
  BOOST_TEST(v->entries[1].text == "<s>");
  BOOST_TEST((v->entries[1].kind == data::token_kind::control));
  BOOST_TEST((v->special.begin == 1U));
  BOOST_TEST((v->special.adds_begin == true));
  BOOST_TEST(*check_ok(data::rules_name_at(single("tekken.json"))) == "tekken");
}

BOOST_AUTO_TEST_CASE(files_next_to_a_list_name_its_special_tokens) {
  const scratch_folder at;
  at.write("tokenizer.model", content_of(single("llama3/tokenizer.model")));
  at.write("params.json", content_of(single("llama3/params.json")));
  at.write("tokenizer_config.json", R"({"eos_token": "<|end|>", "added_tokens_decoder":
      {"400": {"content": "<|begin|>", "special": true}, "401": {"content": "<|end|>", "special": true}}})");
  auto t = std::move(*check_ok(data::open_tokenizer(at.path())));
  BOOST_TEST(t->vocab_size() == 402U);
  BOOST_TEST(t->end_of_text().value() == 401U);
  // A tokenizer.json states more, so it is read.
  at.write("tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {"a": 0}}})");
  check_no_tokenizer(at.path(), "tokenizer.json': model: unk_token: wanted the token of unknown words");
}

BOOST_AUTO_TEST_CASE(lists_of_unknown_models_and_broken_lists_are_refused) {
  const scratch_folder at;
  const auto words = content_of(single("qwen/qwen.tiktoken"));
  check_no_tokenizer(at.write("other.tiktoken", words),
                     "a list of tiktoken with 400 words, whose pattern is not known");
  check_no_tokenizer(at.write("m/tokenizer.model", words), "wanted Llama 3's tokenizer.model (128000 words");
  check_no_tokenizer(at.write("c/qwen.tiktoken", words + "not-base64 400\n"), "qwen.tiktoken:401: wanted a word in");
  check_no_tokenizer(at.write("d/qwen.tiktoken", words + "IQ== 7\n"), "each once, got 7 in place of 8");
  check_no_tokenizer(at.write("e/qwen.tiktoken", words + "IQ== 400\n"), "the word '!' occurs twice");
  check_no_tokenizer(at.write("f/qwen.tiktoken", "IQ== 0\n"), "not a byte-level vocabulary");
  check_no_tokenizer(at.write("g/qwen.tiktoken", "\n"), "qwen.tiktoken' is empty: wanted a word in base64");
  auto tekken = nlohmann::json::parse(content_of(single("tekken.json")));
  const auto refused = [&](const nlohmann::json& changed, const std::string& why) {
    check_no_tokenizer(at.write("tekken.json", changed.dump()), why);
  };
  auto changed = tekken;
  changed["config"]["version"] = "v11";
  refused(changed, "special_tokens: wanted a list, as version 'v11' has");
  changed = tekken;
  changed["vocab"][300]["rank"] = 7;
  refused(changed, "vocab: wanted rank 300 and token_bytes in base64 in place 300");
  changed = tekken;
  changed["config"]["pattern"] = "(?<=a)b|(a)\\1";
  refused(changed, "pre_tokenizer");
  changed = tekken;
  changed["config"].erase("default_vocab_size");
  refused(changed, "config: wanted a default_vocab_size");
}

BOOST_AUTO_TEST_CASE(merges_follow_the_order_of_the_words_they_make) {
  const std::vector<std::string> words{"a", "b", "c", "bc", "ab", "abc"};
  const std::vector<std::array<uint32_t, 2>> wanted{{1, 2}, {0, 1}, {0, 3}, {4, 2}};
  BOOST_TEST((data::merges_into(words) == wanted));
}

BOOST_AUTO_TEST_CASE(base64_is_read_with_its_padding) {
  BOOST_TEST(data::from_base64("").value() == "");
  BOOST_TEST(data::from_base64("IQ==").value() == "!");
  BOOST_TEST(data::from_base64("YWI=").value() == "ab");
  BOOST_TEST(data::from_base64("/+8A").value() == std::string("\xff\xef\0", 3));
  for (const char* broken : {"IQ", "IQ=", "I===", "I*==", "IQ==IQ=="})
    BOOST_TEST(!data::from_base64(broken).has_value(), broken);
}

BOOST_AUTO_TEST_SUITE_END()
