// Tests the lists of tokens of all kinds of vocabularies: bytes, GPT-2's files, a tokenizer.json, SentencePiece models.
#include "data/tokenizers/vocabulary.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::data::tests {
BOOST_AUTO_TEST_SUITE(vocabularies)

namespace {

using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

const fs::path fixtures = (std::string(troupe::places::source_dir) + "/tests/data/fixtures");

/// Checks that no two tokens have the same text, which llama.cpp requires.
void check_distinct(const vocabulary& v) {
  std::set<std::string> seen;
  for (const auto& e : v.entries)
    if (!e.text.empty()) BOOST_TEST(seen.insert(e.text).second, e.text);
}

std::string refusal(const fs::path& path) {
  const auto v = read_vocabulary(path);
  return v ? "" : v.error().text;
}

constexpr const char* small_pipeline =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]},
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},
"added_tokens":[{"id":4,"content":"<end>","special":true},{"id":3,"content":"tool","special":false}]})";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  BOOST_REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_are_256_tokens_in_order) {
  const auto v = byte_vocabulary();
  BOOST_REQUIRE_EQUAL(v.entries.size(), 256U);
  BOOST_CHECK_EQUAL(v.entries['a'].text, "a");
  BOOST_CHECK_EQUAL(v.entries[' '].text, "\u0120");
  BOOST_CHECK_EQUAL(v.entries[0].text, "\u0100");
  check_distinct(v);
}

BOOST_AUTO_TEST_CASE(gpt2s_files_are_listed_by_number) {
  const auto v = read_vocabulary(fixtures / "gpt2");
  BOOST_REQUIRE(v);
  const auto tokenizer = open_tokenizer(fixtures / "gpt2");
  BOOST_REQUIRE(tokenizer);
  BOOST_CHECK_EQUAL(v->entries.size(), (*tokenizer)->vocab_size());
  BOOST_CHECK(v->special.end == (*tokenizer)->end_of_text());
  BOOST_CHECK(v->rules == text_rules{});
  BOOST_CHECK_EQUAL(v->merges.size() + 256 + 1, v->entries.size());
  BOOST_CHECK(v->entries[*v->special.end].kind == token_kind::control);
  check_distinct(*v);
}

BOOST_AUTO_TEST_CASE(a_tokenizer_json_says_words_merges_and_special_tokens) {
  const scratch_folder folder;
  folder.write("tokenizer.json", small_pipeline);
  folder.write("tokenizer_config.json", R"({"eos_token":{"content":"<end>"},"bos_token":"a","add_bos_token":true,)"
                                        R"("chat_template":"{{ messages }}"})");
  BOOST_CHECK(has_vocabulary(folder.path()));
  const auto v = read_vocabulary(folder.path());
  BOOST_REQUIRE(v);
  BOOST_CHECK(v->rules == text_rules{});
  BOOST_REQUIRE_EQUAL(v->entries.size(), 5U);
  BOOST_CHECK_EQUAL(v->entries[2].text, "ab");
  BOOST_CHECK(v->entries[3].kind == token_kind::user_defined);
  BOOST_CHECK(v->entries[4].kind == token_kind::control);
  BOOST_CHECK(v->merges == std::vector<std::string>{"a b"});
  BOOST_CHECK(v->special.end == 4U);
  BOOST_CHECK(v->special.begin == 0U);
  BOOST_CHECK(v->special.adds_begin == true);
  BOOST_CHECK_EQUAL(v->special.chat_template, "{{ messages }}");
}

BOOST_AUTO_TEST_CASE(a_way_to_cut_words_that_is_not_known_is_refused) {
  const scratch_folder folder;
  const auto path = [&](const std::string& text) { return folder.write("tokenizer.json", text); };
  const std::string good = small_pipeline;
  BOOST_CHECK_EQUAL(refusal(path(good)), "");
  BOOST_TEST(refusal(path(replaced(good, "\"use_regex\":true", "\"use_regex\":false"))).find("pre_tokenizer: wanted") !=
             std::string::npos);
  BOOST_TEST(refusal(path(replaced(good, "\"BPE\"", "\"WordPiece\""))).find("wanted one of type BPE") !=
             std::string::npos);
  BOOST_TEST(refusal(path(replaced(good, "\"BPE\"", "\"BPE\",\"byte_fallback\":true"))).find("tokenizer.model") !=
             std::string::npos);
  BOOST_TEST(refusal(path(replaced(good, "\"b\":1", "\"b\":0"))).find("which another word has too") !=
             std::string::npos);
  BOOST_TEST(refusal(path(replaced(good, "[\"a\",\"b\"]", "[\"a\"]"))).find("wanted pairs of words") !=
             std::string::npos);
  BOOST_TEST(refusal(path(replaced(good, "\"id\":4", "\"id\":-4"))).find("added_tokens") != std::string::npos);
  // A key with a value of a wrong type is treated as missing.
  for (const char* odd : {"null", "3", "[]", "{}", "\"\""}) {
    for (const char* key : {"\"ByteLevel\"", "false,\"use_regex\":true", "\"BPE\"", "[[\"a\",\"b\"]]"})
      (void)refusal(path(replaced(good, key, odd)));
    BOOST_TEST(refusal(path(replaced(good, "\"ByteLevel\"", odd))) != "");
  }
  BOOST_TEST(refusal(path("[]")) != "");
  BOOST_TEST(refusal(folder / "none") != "");
}

BOOST_AUTO_TEST_CASE(a_folder_of_two_tokenizers_is_read_as_for_training_or_refused) {
  const scratch_folder folder;
  folder.write("tokenizer.model", scratch_folder::read(fixtures / "unigram.model"));
  for (const char* name : {"vocab.json", "merges.txt"})
    folder.write(name, scratch_folder::read(fixtures / "gpt2" / name));
  const auto v = read_vocabulary(folder.path());
  BOOST_REQUIRE_MESSAGE(v, v.error().text);
  BOOST_CHECK(v->kind == vocabulary_kind::byte_level);
  const auto tokenizer = open_tokenizer(folder.path());
  BOOST_REQUIRE(tokenizer);
  BOOST_CHECK_EQUAL(v->entries.size(), (*tokenizer)->vocab_size());
  fs::remove(folder / "tokenizer.model");
  folder.write("tokenizer.json", small_pipeline);
  BOOST_TEST(refusal(folder.path()).find("wanted one tokenizer in a folder: remove the files of the other") !=
             std::string::npos);
  BOOST_TEST(refusal(folder / "tokenizer.json") == "");
}

BOOST_AUTO_TEST_CASE(llama_3s_words_are_the_matches_of_its_pattern) {
  const scratch_folder folder;
  const auto words = [&](const std::string& marks) {
    const std::string pattern =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
    return folder.write(
        "tokenizer.json",
        replaced(small_pipeline, R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})",
                 R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" + pattern + "\"}," +
                     marks + R"(},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})"));
  };
  for (const char* same : {R"("behavior":"Isolated","invert":false)", R"("behavior":"Removed","invert":true)"}) {
    const auto v = read_vocabulary(words(same));
    BOOST_REQUIRE_MESSAGE(v, v.error().text);
    BOOST_CHECK_EQUAL(name_of(v->rules.words), "llama-bpe");
  }
  for (const char* other : {R"("behavior":"Removed","invert":false)", R"("behavior":"Isolated","invert":true)",
                            R"("behavior":"MergedWithNext","invert":false)"})
    BOOST_TEST(refusal(words(other)).find("pre_tokenizer: wanted") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(sentencepiece_models_have_scores_and_kinds) {
  for (const auto& [file, kind] : {std::pair{"bpe.model", vocabulary_kind::sentencepiece_bpe},
                                   std::pair{"unigram.model", vocabulary_kind::sentencepiece_unigram}}) {
    const auto v = read_vocabulary(fixtures / file);
    BOOST_REQUIRE(v);
    BOOST_CHECK(v->kind == kind);
    const auto tokenizer = open_tokenizer(fixtures / file);
    BOOST_REQUIRE(tokenizer);
    BOOST_CHECK_EQUAL(v->entries.size(), (*tokenizer)->vocab_size());
    BOOST_CHECK(v->special.end == (*tokenizer)->end_of_text());
    BOOST_CHECK(v->entries[v->special.unknown.value()].kind == token_kind::unknown);
    bool has_score = false;
    for (const auto& e : v->entries) has_score = has_score || e.score < 0;
    BOOST_CHECK(has_score);
    check_distinct(*v);
  }
}

BOOST_AUTO_TEST_CASE(a_sentencepiece_model_that_the_library_cannot_load_has_no_vocabulary) {
  const scratch_folder at;
  const auto good = scratch_folder::read(fixtures / "unigram.model");
  const auto first = good.substr(0, 2 + static_cast<uint8_t>(good[1]));
  // Pieces of a second unknown token, and of a byte in a model that is not trained with byte_fallback.
  const std::string unknown_z("\x0A\x05\x0A\x01z\x18\x02"), byte_a("\x0A\x0A\x0A\x06<0x61>\x18\x06");
  for (const auto& piece : {first, unknown_z, byte_a}) {
    at.write("p.model", piece + good);
    const auto t = open_tokenizer(at / "p.model");
    BOOST_REQUIRE(!t);
    BOOST_TEST(t.error().text.find("SentencePiece cannot load the model") != std::string::npos, t.error().text);
    const auto why = refusal(at / "p.model");
    BOOST_TEST(why.find("SentencePiece cannot load the model") != std::string::npos, why);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::data::tests
