// Tests special tokens, added words and chat templates in folders as users have them.
#include "data/tokenizers/special_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "data/tokenizers/vocabulary.hpp"
#include "data/tokenizers/words/added_words.hpp"
#include "tests/check_ok.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(special_tokens)

using namespace troupe;
using troupe::tests::check_failed;
using troupe::tests::check_no_tokenizer;
using troupe::tests::check_ok;
using troupe::tests::content_of;
using troupe::tests::encoded;
using troupe::tests::fixture_path;
using troupe::tests::scratch_folder;

namespace {

constexpr uint32_t usual_end = 531;  // number of the token <|endoftext|> in the fixture

/// A folder with GPT-2's tokenizer files, in which token 531 ends a text.
struct byte_pair_folder : scratch_folder {
  byte_pair_folder() {
    write("vocab.json", content_of(fixture_path("gpt2/vocab.json")));
    write("merges.txt", content_of(fixture_path("gpt2/merges.txt")));
  }
};

std::optional<uint32_t> end_of(const scratch_folder& at) {
  const auto t = check_ok(data::open_tokenizer(at.path()));
  // The tokens that end a text are also those that an exported GGUF file names, because one function reads both.
  const auto v = check_ok(data::read_vocabulary(at.path()));
  BOOST_CHECK(v->special.end == (*t)->end_of_text());
  return (*t)->end_of_text();
}

constexpr const char* pipeline = R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]},
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"post_processor":POST,
"added_tokens":[{"id":3,"content":"<s>","special":true},{"id":4,"content":"</s>","special":true},
{"id":5,"content":"<end>","special":true}]})";

std::string with_post(const std::string& post) {
  std::string out = pipeline;
  return out.replace(out.find("POST"), 4, post);
}

data::special_tokens special_of(const scratch_folder& at) {
  auto v = check_ok(data::read_vocabulary(at.path()));
  return v->special;
}

constexpr const char* bos_and_eos_around = R"({"type":"TemplateProcessing",
"single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
"pair":[]})";

}  // namespace

BOOST_AUTO_TEST_CASE(the_end_of_texts_is_the_one_that_the_folder_names) {
  byte_pair_folder at;
  BOOST_CHECK(end_of(at) == usual_end);
  at.write("config.json", R"({"eos_token_id": 7})");
  BOOST_CHECK(end_of(at) == 7U);
  at.write("special_tokens_map.json", R"({"eos_token": "the"})");
  BOOST_CHECK(end_of(at) == 7U);  // llama.cpp's converter reads config.json first
  at.write("config.json", R"({"eos_token_id": null})");
  const auto by_map = end_of(at);
  BOOST_CHECK(by_map != usual_end);
  at.write("generation_config.json", R"({"eos_token_id": 9})");
  BOOST_CHECK(end_of(at) == by_map);
  at.write("tokenizer_config.json", R"({"eos_token": {"content": "in", "special": true}})");
  const auto by_config = end_of(at);
  BOOST_CHECK(by_config != by_map);
}

BOOST_AUTO_TEST_CASE(numbers_of_generation_config_and_lists_of_numbers_are_a_last_resort) {
  byte_pair_folder at;
  at.write("generation_config.json", R"({"eos_token_id": [11, 12], "bos_token_id": 13})");
  BOOST_CHECK(end_of(at) == 11U);
  at.write("config.json", R"({"eos_token_id": [10, 12]})");
  BOOST_CHECK(end_of(at) == 10U);
  at.write("config.json", R"({"text_config": {"eos_token_id": 14}})");
  BOOST_CHECK(end_of(at) == 14U);
  at.write("config.json", R"({"eos_token_id": 100000})");  // the number is beyond the vocabulary
  BOOST_CHECK(end_of(at) == 11U);
}

BOOST_AUTO_TEST_CASE(an_end_of_text_that_no_token_has_is_refused_by_its_name) {
  byte_pair_folder at;
  at.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  check_no_tokenizer(at.path(), "names '</s>' as the end-of-text token, which is neither in vocab.json nor");
  at.write("added_tokens.json", R"({"</s>": 532})");
  BOOST_CHECK(end_of(at) == 532U);
}

BOOST_AUTO_TEST_CASE(merges_with_windows_lines_a_byte_order_mark_or_no_version_are_the_same_merges) {
  const auto merges = content_of(fixture_path("gpt2/merges.txt"));
  const auto vocab = content_of(fixture_path("gpt2/vocab.json"));
  BOOST_REQUIRE(merges.starts_with("#version"));
  std::string windows;
  for (const char c : merges) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  auto usual = data::open_tokenizer(fixture_path("gpt2"));
  BOOST_REQUIRE(usual);
  const std::string text = "The actors # # pass messages,\n they never share.";
  for (const auto& form : {windows, "\xEF\xBB\xBF" + merges, merges.substr(merges.find('\n') + 1)}) {
    scratch_folder at;
    at.write("vocab.json", "\xEF\xBB\xBF" + vocab);
    at.write("merges.txt", form);
    auto t = check_ok(data::open_tokenizer(at.path()));
    BOOST_TEST(encoded(**t, text) == encoded(**usual, text), boost::test_tools::per_element());
    const auto v = data::read_vocabulary(at.path());
    BOOST_REQUIRE(v);
    BOOST_TEST(v->merges == data::read_vocabulary(fixture_path("gpt2"))->merges, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(added_words_beside_vocab_json_have_their_numbers_and_texts) {
  byte_pair_folder at;
  at.write("added_tokens.json", R"({"[PAD]": 532, "<|user|>": 533})");
  at.write("special_tokens_map.json", R"({"pad_token": "[PAD]", "eos_token": "<|endoftext|>"})");
  const auto v = check_ok(data::read_vocabulary(at.path()));
  BOOST_REQUIRE_EQUAL(v->entries.size(), 534U);
  BOOST_CHECK_EQUAL(v->entries[532].text, "[PAD]");
  BOOST_CHECK_EQUAL(v->entries[533].text, "<|user|>");
  BOOST_CHECK(v->entries[532].kind == data::token_kind::control);
  BOOST_CHECK(v->special.padding == 532U);
  // An added word in a text becomes one token; the name of a special token in a text is ordinary text.
  auto t = check_ok(data::open_tokenizer(at.path()));
  BOOST_CHECK_EQUAL((*t)->vocab_size(), 534U);
  const auto ids = encoded(**t, "the<|user|> in [PAD]<|endoftext|>");
  BOOST_CHECK_EQUAL(std::ranges::count(ids, 533U), 1);
  BOOST_CHECK_EQUAL(std::ranges::count(ids, 532U), 0);
  BOOST_CHECK_EQUAL(std::ranges::count(ids, usual_end), 0);
  BOOST_CHECK_EQUAL((*t)->decode(ids), "the<|user|> in [PAD]<|endoftext|>");
  auto usual = data::open_tokenizer(fixture_path("gpt2"));
  BOOST_CHECK((*usual)->description().digest != (*t)->description().digest);
}

BOOST_AUTO_TEST_CASE(an_added_word_that_cannot_be_cut_as_transformers_does_is_refused_where_a_text_has_it) {
  byte_pair_folder at;
  at.write("tokenizer_config.json", R"({"added_tokens_decoder": {"532": {"content": "two words"},)"
                                    R"("533": {"content": "<left>", "lstrip": true}}})");
  auto t = check_ok(data::open_tokenizer(at.path()));
  std::vector<uint32_t> out;
  BOOST_CHECK((*t)->encode("one word", out));
  for (const auto& [text, why] : {std::pair{"has two words", "'two words', which contains blanks"},
                                  {"a <left>", "'<left>', which also matches blanks or word borders"}}) {
    check_failed((*t)->encode(text, out), why);
  }
}

BOOST_AUTO_TEST_CASE(added_words_that_are_not_normalized_are_found_before_the_others_as_in_tokenizers) {
  const auto ids_of = [](const scratch_folder& at, std::string_view text) {
    auto t = check_ok(data::open_tokenizer(at.path()));
    return encoded(**t, text);
  };
  byte_pair_folder at;
  const auto joined = [&](std::vector<uint32_t> ids, std::string_view rest) {
    auto t = tests::tokenizer_of("gpt2");
    for (const auto id : encoded(*t, rest)) ids.push_back(id);
    return ids;
  };
  at.write("tokenizer_config.json", R"({"added_tokens_decoder": {"532": {"content": "```python", "normalized": true},)"
                                    R"("533": {"content": "``", "normalized": false}, "534": {"content": "ab"},)"
                                    R"("535": {"content": "bcd", "normalized": false}}})");
  BOOST_TEST(ids_of(at, "```python x") == joined({533}, "`python x"), boost::test_tools::per_element());
  auto wanted = joined({}, "a");
  wanted.push_back(535);
  BOOST_TEST(ids_of(at, "abcd") == wanted, boost::test_tools::per_element());
  BOOST_TEST(ids_of(at, "abc") == joined({534}, "c"), boost::test_tools::per_element());
  // The file that transformers reads last decides.
  at.write("tokenizer.json", R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},)"
                             R"("added_tokens": [{"id": 534, "content": "ab", "normalized": false}]})");
  BOOST_TEST(ids_of(at, "abcd") == wanted, boost::test_tools::per_element());
  // The leftmost word is found, and the longest of those, if all words have the same mark.
  at.write("tokenizer.json",
           "{\"pre_tokenizer\": "
           R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}})");
  at.write("tokenizer_config.json",
           R"({"added_tokens_decoder": {"532": {"content": "```python"},)"
           R"("533": {"content": "``"}, "534": {"content": "ab"}, "535": {"content": "bcd"}}})");
  BOOST_TEST(ids_of(at, "```python x") == joined({532}, " x"), boost::test_tools::per_element());
  BOOST_TEST(ids_of(at, "abcd") == joined({534}, "cd"), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(added_words_are_found_in_two_passes_whatever_the_words_and_wherever_a_text_is_cut) {
  std::mt19937_64 random(17);
  const auto any_text = [&](size_t bytes) {
    std::string text(bytes, 'a');
    for (auto& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  const auto add_places = [](const data::added_words& words, std::string_view text, size_t before,
                             std::vector<std::pair<size_t, uint32_t>>& to) {
    for (size_t at = 0; const auto found = words.next(text, at);) {
      to.emplace_back(before + found->at, found->word->id);
      at = found->at + found->word->text.size();
    }
  };
  for (int round = 0; round < 2000; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    std::vector<data::added_word> all, first, second;
    for (uint32_t id = 0; id < 5; ++id) {
      data::added_word word{any_text(1 + random() % 4), id};
      if (std::ranges::any_of(all, [&](const auto& w) { return w.text == word.text; })) continue;
      word.is_normalized = random() % 2 == 0;
      all.push_back(word);
      (word.is_normalized ? second : first).push_back(word);
    }
    const data::added_words both(all, {}), verbatim(first, {}), normalized(second, {});
    const auto text = any_text(random() % 30);
    std::vector<std::pair<size_t, uint32_t>> found, in_parts, taken, wanted;
    add_places(both, text, 0, found);
    add_places(verbatim, text, 0, taken);
    size_t begin = 0;
    for (const auto& [at, id] : taken) {
      add_places(normalized, std::string_view(text).substr(begin, at - begin), begin, wanted);
      wanted.emplace_back(at, id);
      begin = at + std::ranges::find(all, id, &data::added_word::id)->text.size();
    }
    add_places(normalized, std::string_view(text).substr(begin), begin, wanted);
    BOOST_CHECK(found == wanted);
    begin = 0;
    for (size_t at = 1; at <= text.size(); ++at) {
      if (at < text.size() && both.lies_across(text, at)) continue;
      add_places(both, std::string_view(text).substr(begin, at - begin), begin, in_parts);
      begin = at;
    }
    BOOST_CHECK(in_parts == wanted);
  }
}

BOOST_AUTO_TEST_CASE(added_words_with_two_numbers_or_two_texts_are_refused) {
  byte_pair_folder at;
  at.write("added_tokens.json", R"({"the": 532})");
  check_no_tokenizer(at.path(), "the added token 'the' has number 532, but");
  BOOST_CHECK(!data::read_vocabulary(at.path()));
  at.write("added_tokens.json", R"({"<a>": 532})");
  at.write("tokenizer_config.json", R"({"added_tokens_decoder": {"532": {"content": "<b>"}}})");
  check_no_tokenizer(at.path(), "the added token 532 is '<a>' here and '<b>' elsewhere");
  at.write("added_tokens.json", R"({"<a>": -1})");
  check_no_tokenizer(at.path(), "the word '<a>': wanted a number below");
  at.write("added_tokens.json", R"({"<a>": 533})");
  at.write("tokenizer_config.json", R"({"added_tokens_decoder": {"532": {"content": "<a>"}}})");
  check_no_tokenizer(at.path(), "the added token '<a>' has the numbers 532 and 533");
  BOOST_CHECK(!data::read_vocabulary(at.path()));
}

BOOST_AUTO_TEST_CASE(an_added_word_with_the_number_of_another_word_is_refused_whatever_file_names_it) {
  const std::pair<const char*, const char*> files[] = {
      {"added_tokens.json", R"({"<a>": 300})"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"300": {"content": "<a>"}}})"},
      {"tokenizer.json", R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},)"
                         R"("added_tokens": [{"id": 300, "content": "<a>"}]})"}};
  for (const auto& [name, text] : files) {
    byte_pair_folder at;
    at.write(name, text);
    check_no_tokenizer(at.path(), "the added token '<a>' has number 300, which '");
    BOOST_CHECK(!data::read_vocabulary(at.path()));
  }
  const scratch_folder alone;
  alone.write("tokenizer.json", R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]},)"
                                R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
                                R"("added_tokens":[{"id":2,"content":"<a>"}]})");
  check_no_tokenizer(alone.path(), "the added token '<a>' has number 2, which 'ab' has in the vocabulary");
  const scratch_folder pieces;
  pieces.write("tokenizer.model", content_of(fixture_path("unigram.model")));
  pieces.write("added_tokens.json", R"({"<a>": 6})");
  check_no_tokenizer(pieces.path(), "the added token '<a>' has number 6, which '.' has in the model");
  BOOST_CHECK(!data::read_vocabulary(pieces.path()));
  pieces.write("added_tokens.json", R"({".": 200})");
  check_no_tokenizer(pieces.path(), "the added token '.' has number 200, but 6 in the model");
  pieces.write("added_tokens.json", R"({".": 6})");
  BOOST_CHECK(data::open_tokenizer(pieces.path()));
}

BOOST_AUTO_TEST_CASE(a_sentencepiece_model_takes_its_end_of_texts_from_the_folder_too) {
  const scratch_folder at;
  at.write("tokenizer.model", content_of(fixture_path("unigram.model")));
  const auto own = data::open_tokenizer(fixture_path("unigram.model"));
  BOOST_REQUIRE(own);
  const auto pieces = static_cast<uint32_t>((*own)->vocab_size());
  BOOST_CHECK(end_of(at) == (*own)->end_of_text());
  at.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  check_no_tokenizer(at.path(), "names '<|im_end|>' as the end-of-text token");
  at.write("added_tokens.json", fmt::format("{{\"<|im_end|>\": {}}}", pieces));
  BOOST_CHECK(end_of(at) == pieces);
  auto t = data::open_tokenizer(at.path());
  BOOST_CHECK_EQUAL((*t)->vocab_size(), pieces + 1);
  BOOST_CHECK_EQUAL((*t)->decode(std::vector<uint32_t>{pieces}), "<|im_end|>");
  const auto v = data::read_vocabulary(at.path());
  BOOST_REQUIRE(v);
  BOOST_CHECK_EQUAL(v->entries.at(pieces).text, "<|im_end|>");
}

BOOST_AUTO_TEST_CASE(the_post_processor_says_whether_tokens_stand_around_a_text) {
  scratch_folder at;
  at.write("tokenizer.json", with_post(bos_and_eos_around));
  auto s = special_of(at);  // no other file names these tokens
  BOOST_CHECK(s.begin == 3U);
  BOOST_CHECK(s.end == 4U);
  BOOST_CHECK(s.adds_begin == true);
  BOOST_CHECK(s.adds_end == true);
  // The rule is that of llama.cpp's SpecialVocab: the end token in a chat template has priority, and eos_token then
  // ends a turn.
  at.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "<end>"})");
  s = special_of(at);
  BOOST_CHECK(s.end == 4U);
  BOOST_CHECK(s.end_of_turn == 5U);
  at.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false})");
  s = special_of(at);
  BOOST_CHECK(s.adds_begin == false);
  BOOST_CHECK(!s.end_of_turn);
  at.write("tokenizer.json", with_post(R"({"type":"RobertaProcessing","sep":["</s>",4],"cls":["<s>",3]})"));
  at.write("tokenizer_config.json", "{}");
  s = special_of(at);
  BOOST_CHECK(s.begin == 3U);
  BOOST_CHECK(s.end == 4U);
  BOOST_CHECK(s.adds_separator == true);
  for (const char* odd :
       {"null", "3", "[]", "\"x\"", R"({"processors":3})", R"({"type":"TemplateProcessing","single":[1,2]})",
        R"({"type":"TemplateProcessing","single":{},"pair":[{},{},{}]})"}) {
    BOOST_TEST_INFO_SCOPE(odd);
    at.write("tokenizer.json", with_post(odd));
    BOOST_CHECK(!special_of(at).begin);
  }
}

BOOST_AUTO_TEST_CASE(chat_templates_come_from_the_config_the_file_or_a_list) {
  scratch_folder at;
  at.write("tokenizer.json", with_post("null"));
  at.write("chat_template.jinja", "JINJA");
  BOOST_CHECK_EQUAL(special_of(at).chat_template, "JINJA");
  at.write("additional_chat_templates/rag.jinja", "RAG");
  auto s = special_of(at);
  BOOST_CHECK_EQUAL(s.chat_template, "JINJA");
  BOOST_REQUIRE_EQUAL(s.other_templates.size(), 1U);
  BOOST_CHECK_EQUAL(s.other_templates[0].first, "rag");
  at.write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "DEFAULT"},)"
                                    R"({"name": "tool use", "template": "TOOL"}, {"name": "none"}, 3]})");
  s = special_of(at);
  BOOST_CHECK_EQUAL(s.chat_template, "DEFAULT");
  BOOST_REQUIRE_EQUAL(s.other_templates.size(), 1U);
  BOOST_CHECK_EQUAL(s.other_templates[0].first, "tool_use");
  BOOST_CHECK_EQUAL(s.other_templates[0].second, "TOOL");
  scratch_folder old;
  old.write("tokenizer.json", with_post("null"));
  old.write("chat_template.json", R"({"chat_template": "OLD"})");
  BOOST_CHECK_EQUAL(special_of(old).chat_template, "OLD");
}

BOOST_AUTO_TEST_SUITE_END()
