// Compares Troupe's tokenizers with the real packages on strings that are hard to split; also tests broken files and
// lossless round trips.
#include "data/tokenizers/tokenizer.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/text/word_cutter.hpp"
#include "data/tokenizers/vocabulary.hpp"
#include "data/tokenizers/words/byte_pair.hpp"
#include "families/all_families.hpp"
#include "tests/data/text.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(tokenizer)

using namespace troupe;
using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(byte_pairs_are_those_of_the_real_package) {
  const auto& f = fixture();
  auto ours = tokenizer_of("gpt2");
  BOOST_TEST(ours->vocab_size() == 532U);
  BOOST_TEST(ours->end_of_text().value() == 531U);
  for (size_t i = 0; i < f["gpt2"].size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto text = from_hex(f["text"][i]);
    BOOST_TEST(encoded(*ours, text) == f["gpt2"][i].get<std::vector<uint32_t>>(), boost::test_tools::per_element());
    BOOST_TEST(ours->decode(encoded(*ours, text)) == text);
  }
}

BOOST_AUTO_TEST_CASE(texts_are_prepared_by_the_rules_of_a_tokenizer_json_as_in_the_real_package) {
  const auto& f = fixture();
  for (const auto& [name, rules] : f["pipelines"].items()) BOOST_TEST_CONTEXT(name) {
      const scratch_folder at;
      const auto pipeline = pipeline_of(rules);
      auto ours = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", pipeline.dump()))));
      BOOST_TEST(ours->description().kind == name);
      for (size_t i = 0; i < rules["ids"].size(); ++i)
        BOOST_TEST(encoded(*ours, from_hex(f["text"][i])) == rules["ids"][i].get<std::vector<uint32_t>>(),
                   "string " << i);
      // vocab.json and merges.txt next to tokenizer.json hold the same words and merges as that file.
      at.write("vocab.json", pipeline["model"]["vocab"].dump());
      std::string merges;
      for (const auto& merge : pipeline["model"]["merges"]) merges += merge.get<std::string>() + "\n";
      at.write("merges.txt", merges);
      auto beside = std::move(*check_ok(data::open_tokenizer(at.path())));
      BOOST_TEST(data::same_vocabulary(beside->description(), ours->description()));
      BOOST_TEST(!data::same_vocabulary(tokenizer_of("gpt2")->description(), ours->description()));
      for (size_t i = 0; i < f["text"].size(); ++i) {
        const auto text = from_hex(f["text"][i]);
        BOOST_TEST(encoded(*beside, text) == encoded(*ours, text), "string " << i);
      }
    }
}

BOOST_AUTO_TEST_CASE(without_a_tokenizer_json_the_class_says_how_texts_are_prepared) {
  const auto& rules = fixture()["pipelines"]["qwen2"];
  const scratch_folder at;
  const auto pipeline = pipeline_of(rules);
  at.write("vocab.json", pipeline["model"]["vocab"].dump());
  std::string merges;
  for (const auto& merge : pipeline["model"]["merges"]) merges += merge.get<std::string>() + "\n";
  at.write("merges.txt", merges);
  at.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  auto ours = std::move(*check_ok(data::open_tokenizer(at.path())));
  BOOST_TEST(ours->description().kind == "qwen2");
  const auto of_decomposed = encoded(*ours, "e\u0301 12"), of_composed = encoded(*ours, "\u00e9 12");
  BOOST_TEST(of_decomposed == of_composed, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_model_type_says_the_class_if_no_file_names_one) {
  const scratch_folder at;
  for (const char* name : {"vocab.json", "merges.txt"})
    at.write(std::string("v/") + name, content_of(fixture_path(std::string("gpt2/") + name)));
  const auto opened = [&](const char* config, const char* model) {
    at.write("v/tokenizer_config.json", config);
    at.write("v/config.json", model);
    return data::open_tokenizer(at / "v");
  };
  for (const char* type : {"qwen2", "qwen3"}) {
    const auto t = std::move(*check_ok(opened("{}", (R"({"model_type": ")" + std::string(type) + "\"}").c_str())));
    BOOST_TEST(t->description().kind == "qwen2", type);
  }
  for (const auto* f : families::all)
    if (!f->tokenizer_class.empty())
      check_ok(opened("{}", (R"({"model_type": ")" + std::string(f->model_type) + "\"}").c_str()));
  BOOST_TEST((*check_ok(opened("{}", R"({"tokenizer_class": "Qwen2TokenizerFast"})")))->description().kind == "qwen2");
  BOOST_TEST((*check_ok(opened("{}", R"({"model_type": "gpt2"})")))->description().kind == "gpt2");
  // A class of its own comes before the model's type.
  const char* const named = R"({"tokenizer_class": "GPT2Tokenizer"})";
  BOOST_TEST((*check_ok(opened(named, R"({"model_type": "llama"})")))->description().kind == "gpt2");
  // GPT-NeoX composes characters before it cuts words as GPT-2 does.
  const auto neox = std::move(*check_ok(opened("{}", R"({"model_type": "gpt_neox"})")));
  BOOST_TEST(neox->description().kind == "gpt2");
  BOOST_TEST(encoded(*neox, "e\u0301") == encoded(*neox, "\u00e9"), boost::test_tools::per_element());
  BOOST_TEST(!data::same_vocabulary(neox->description(), tokenizer_of("gpt2")->description()));
  check_failed(opened("{}", R"({"model_type": "llama"})"), core::error_kind::bad_input,
               "config.json': model_type: wanted one whose tokenizer merges byte pairs and splits words like GPT-2's "
               "or Qwen2's, got llama: put its tokenizer.json next to vocab.json, or name the class");
  check_failed(opened("{}", R"({"tokenizer_class": "CLIPTokenizer"})"), core::error_kind::bad_input,
               "config.json': tokenizer_class: wanted one that merges byte pairs");
  check_failed(opened(R"({"tokenizer_class": "BlenderbotTokenizer"})", "{}"), core::error_kind::bad_input,
               "add_prefix_space: wanted false, since a space before the text is not supported, got nothing, which "
               "means true for BlenderbotTokenizer");
}

BOOST_AUTO_TEST_CASE(tokenizers_of_one_vocabulary_with_other_rules_have_other_digests) {
  const scratch_folder at;
  std::vector<data::tokenizer_description> seen;
  const auto see = [&](const nlohmann::json& pipeline) {
    const auto t = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", pipeline.dump()))));
    for (const auto& one : seen)
      BOOST_TEST(!data::same_vocabulary(one, t->description()), pipeline.dump().substr(0, 200));
    seen.push_back(t->description());
  };
  const auto& rules = fixture()["pipelines"];
  for (const char* name : {"llama-bpe", "qwen2", "smollm"}) {
    auto pipeline = pipeline_of(rules["llama-bpe"]);
    pipeline["pre_tokenizer"] = rules[name]["pre_tokenizer"];
    for (const bool takes_words : {false, true})
      for (const bool composes : {false, true}) {
        pipeline["model"]["ignore_merges"] = takes_words;
        pipeline["normalizer"] = composes ? nlohmann::json{{"type", "NFC"}} : nlohmann::json();
        see(pipeline);
      }
  }
  auto pipeline = whole_pipeline();
  for (const char* mark : {"", R"(, "lstrip": true)", R"(, "rstrip": true)", R"(, "single_word": true)"}) {
    pipeline["added_tokens"] =
        nlohmann::json::parse(R"([{"id": 600, "content": "<|user|>")" + std::string(mark) + "}]");
    see(pipeline);
  }
}

BOOST_AUTO_TEST_CASE(sentence_pieces_are_those_of_the_real_package) {
  const auto& f = fixture();
  for (const char* name : {"bpe.model", "unigram.model"}) {
    BOOST_TEST_CONTEXT(name) {
      auto ours = tokenizer_of(name);
      BOOST_TEST(ours->vocab_size() == f[name]["pieces"].get<uint64_t>());
      BOOST_TEST(ours->end_of_text().value() == f[name]["eos"].get<uint32_t>());
      for (size_t i = 0; i < f["text"].size(); ++i) {
        const auto text = from_hex(f["text"][i]);
        const auto wanted = f[name]["ids"][i].get<std::vector<uint32_t>>();
        BOOST_TEST(encoded(*ours, text) == wanted, "string " << i);
        BOOST_TEST(ours->decode(wanted) == from_hex(f[name]["decoded"][i]), "string " << i);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(words_are_cut_by_machine_code_where_pcre2_can_write_it) {
  auto cutter = data::word_cutter::make();
  BOOST_REQUIRE(cutter);
  BOOST_TEST(cutter->compiled_to_machine_code());
}

BOOST_AUTO_TEST_CASE(any_bytes_come_back_from_a_round_trip) {
  auto ours = tokenizer_of("gpt2");
  BOOST_TEST(rc::check([&](const std::vector<uint8_t>& bytes) {
    const std::string text(bytes.begin(), bytes.end());
    RC_ASSERT(ours->decode(encoded(*ours, text)) == text);
  }));
  std::mt19937_64 random(3);
  const std::string alphabet = "aeth \n\t'.0\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF";
  for (int i = 0; i < 2000; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    std::string text(random() % 200, '\0');
    for (auto& c : text) c = alphabet[random() % alphabet.size()];
    BOOST_REQUIRE(ours->decode(encoded(*ours, text)) == text);
  }
}

BOOST_AUTO_TEST_CASE(scan_and_heap_merge_the_lowest_rank_from_the_left) {
  // The merge tables have tokens 0 to 3 and random pairs of tokens, so that the ranks of overlapping pairs compete in
  // all ways.
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    data::merge_table table(12);
    uint32_t rank = 0, token = 4;
    while (rank < 12)
      if (table.add(static_cast<uint32_t>(random() % token), static_cast<uint32_t>(random() % token), {rank, token}))
        ++rank, ++token;
    // Short words are merged by scanning, longer ones by another algorithm.
    std::vector<uint32_t> word(random() % (3 * data::scanned_word_tokens));
    for (auto& t : word) t = static_cast<uint32_t>(random() % 4);
    auto merged = word;
    data::merge_word(table, merged);
    for (;;) {  // the definition of BPE: merges the pair with the lowest rank, the leftmost of equal ones
      size_t best = word.size();
      uint32_t lowest = data::merge_table::no_rank;
      for (size_t i = 0; i + 1 < word.size(); ++i)
        if (const auto m = table.find(word[i], word[i + 1]); m.rank < lowest) lowest = m.rank, best = i;
      if (best == word.size()) break;
      word[best] = table.find(word[best], word[best + 1]).token;
      word.erase(word.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    BOOST_REQUIRE(merged == word);
  }
}

BOOST_AUTO_TEST_CASE(a_word_of_a_million_bytes_takes_no_quadratic_time) {
  auto ours = tokenizer_of("gpt2");
  std::string text;
  while (text.size() < 1'000'000) text += "therein";
  BOOST_TEST(ours->decode(encoded(*ours, text)) == text);
  BOOST_TEST((ours->decode(encoded(*ours, std::string(1'000'000, ' ') + "x")).size() == 1'000'001U));
}

BOOST_AUTO_TEST_CASE(a_tokenizer_larger_than_the_models_vocabulary_is_refused_with_both_numbers) {
  const auto d = tokenizer_of("gpt2")->description();
  BOOST_TEST(!!data::check_vocabulary(d, 532));
  const auto refused = data::check_vocabulary(d, 531);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text ==
             "the tokenizer has 532 tokens, but the model's vocab_size is 531: it must be at least as large");
}

BOOST_AUTO_TEST_CASE(files_of_another_kind_are_named_with_what_was_wanted) {
  const scratch_folder at;
  check_no_tokenizer(at / "missing", "No such file or directory");
  check_no_tokenizer(at.write("notes.txt", "x"), "of an unknown kind: wanted a tokenizer.json, a SentencePiece .model");
  check_no_tokenizer(at.write("text.model", "just some text"), "got a broken or cut field at byte 0 of 14");
  std::filesystem::create_directory(at / "empty");
  check_no_tokenizer(at / "empty",
                     "holds no supported tokenizer: wanted a tokenizer.json, a SentencePiece .model, a list of words");
  at.write("wordpiece/vocab.txt", "[PAD]");
  check_no_tokenizer(at / "wordpiece", ", got vocab.txt of WordPiece");
  at.write("lists/a.tiktoken", "IQ== 0");
  at.write("lists/b.tiktoken", "IQ== 0");
  check_no_tokenizer(at / "lists", ".tiktoken of tiktoken");
  at.write("v/vocab.json", "{\n\"a\": 0,\n\"b\": \"one\"}");
  at.write("v/merges.txt", "");
  check_no_tokenizer(at / "v", "vocab.json:3: the word 'b': wanted a number from 0 to");
  at.write("v/vocab.json", "{\"a\": 0, \"b\": 0}");
  check_no_tokenizer(at / "v", "has number 0, which another word has too");
  at.write("v/vocab.json", "[1]");
  check_no_tokenizer(at / "v", "wanted one JSON object of words and their numbers, got array");
  at.write("v/vocab.json", "{\"a\": 0}");
  check_no_tokenizer(at / "v", "is not a byte-level vocabulary: it lacks");
}

BOOST_AUTO_TEST_CASE(json_that_would_end_the_process_is_refused_with_its_file) {
  const scratch_folder at;
  const std::string vocab = content_of(fixture_path("gpt2/vocab.json"));
  const auto within = [](const std::string& head, const std::string& tail) {
    return head + std::string(100'000, '[') + std::string(100'000, ']') + tail;
  };
  at.write("v/merges.txt", content_of(fixture_path("gpt2/merges.txt")));
  for (const auto& deep : {within("", ""), within("{\"a\": ", "}"), std::string(100'000, '[')}) {
    at.write("v/vocab.json", deep);
    check_no_tokenizer(at / "v",
                       "vocab.json:1: wanted one JSON object of words and their numbers, got its values are nested");
  }
  for (const auto& number : {std::string(400, '9'), "-" + std::string(400, '9'), std::string("1e999")}) {
    at.write("v/vocab.json", "{\"a\": 0,\n\"b\": " + number + "}");
    check_no_tokenizer(at / "v",
                       "vocab.json:2: wanted one JSON object of words and their numbers, got a number outside");
  }
  at.write("v/vocab.json", vocab);
  for (const char* key : {"normalizer", "pre_tokenizer", "other"}) {
    at.write("v/tokenizer.json", within("{\"" + std::string(key) + "\": ", "}"));
    check_no_tokenizer(at / "v",
                       "tokenizer.json': wanted one JSON object, got its values are nested more than 100 deep");
    at.write("v/tokenizer.json", "{\"" + std::string(key) + "\": " + std::string(400, '9') + "}");
    check_no_tokenizer(at / "v",
                       "tokenizer.json': wanted one JSON object, got a number outside the range of a double at byte");
  }
}

BOOST_AUTO_TEST_CASE(a_family_that_cuts_or_normalises_text_in_another_way_is_refused) {
  const scratch_folder at;
  at.write("v/vocab.json", content_of(fixture_path("gpt2/vocab.json")));
  at.write("v/merges.txt", content_of(fixture_path("gpt2/merges.txt")));
  const std::string byte_level = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
  at.write("v/tokenizer.json", R"({"normalizer": null, "pre_tokenizer": )" + byte_level + "}");
  BOOST_TEST(!!data::open_tokenizer(at / "v"));
  at.write("v/tokenizer.json", R"({"normalizer": {"type": "NFKC"}, "pre_tokenizer": )" + byte_level + "}");
  check_no_tokenizer(at / "v", "normalizer: wanted none, or NFC, got");
  for (const char* other :
       {"null", R"({"type": "Sequence", "pretokenizers": []})", R"({"type": "ByteLevel", "add_prefix_space": true})",
        R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})"}) {
    at.write("v/tokenizer.json", std::string(R"({"pre_tokenizer": )") + other + "}");
    check_no_tokenizer(
        at / "v",
        "tokenizer.json': pre_tokenizer: wanted the way in which GPT-2, SmolLM, Llama 3, Qwen2, GPT-4o or Mistral");
  }
  at.write("v/tokenizer.json", "{\"pre");
  check_no_tokenizer(at / "v", "tokenizer.json': wanted one JSON object");
}

BOOST_AUTO_TEST_CASE(a_model_that_cuts_words_by_more_than_merges_is_refused) {
  const scratch_folder at;
  at.write("beside/vocab.json", content_of(fixture_path("gpt2/vocab.json")));
  at.write("beside/merges.txt", content_of(fixture_path("gpt2/merges.txt")));
  const auto pipeline = whole_pipeline();
  const auto write = [&](const nlohmann::json& keys) {
    for (const char* folder : {"beside", "alone"}) at.write(std::string(folder) + "/tokenizer.json", keys.dump());
  };
  write(pipeline);
  for (const char* folder : {"beside", "alone"}) BOOST_TEST(!!data::open_tokenizer(at / folder), folder);
  const std::vector<std::tuple<const char*, nlohmann::json, const char*>> cases{
      {"end_of_word_suffix", "</w>", "model.end_of_word_suffix: wanted none, as in GPT-2's, got '</w>'"},
      {"continuing_subword_prefix", "##", "model.continuing_subword_prefix: wanted none"},
      {"dropout", 0.1, "model.dropout: wanted null, since random merges are not supported, got 0.1"}};
  for (const auto& [key, value, words] : cases) {
    auto keys = pipeline;
    keys["model"][key] = value;
    write(keys);
    for (const char* folder : {"beside", "alone"}) check_no_tokenizer(at / folder, words);
  }
}

BOOST_AUTO_TEST_CASE(bytes_without_a_token_are_left_out_unless_texts_need_them) {
  const scratch_folder at;
  auto pipeline = whole_pipeline();
  const auto opened = [&](const nlohmann::json& keys) {
    at.write("v/tokenizer.json", keys.dump());
    return data::open_tokenizer(at / "v");
  };
  const auto whole = *check_ok(opened(pipeline));
  BOOST_TEST(whole->description().lost_bytes.empty());
  // The package `tokenizers` leaves out a byte without a token, and merges its neighbours.
  pipeline["model"]["vocab"].erase("\u0100");
  const auto lossy = *check_ok(opened(pipeline));
  BOOST_TEST(lossy->description().lost_bytes == std::vector<uint8_t>{0}, boost::test_tools::per_element());
  std::vector<uint32_t> tokens, without;
  check_ok(lossy->encode(std::string_view("the\0 t\0he", 9), tokens));
  check_ok(whole->encode("the", without));
  check_ok(whole->encode(" the", without));
  BOOST_TEST(lossy->decode(tokens) == "the the");
  // A token for unknown bytes would stand for it, and an added word, matched as a whole, represents no byte.
  const std::string fault =
      "tokenizer.json' is not a byte-level vocabulary: it lacks '\u0100', which represents byte 0";
  auto unknown = pipeline;
  unknown["model"]["unk_token"] = "the";
  check_failed(opened(unknown), fault);
  unknown["added_tokens"] = nlohmann::json::parse(R"([{"id": 600, "content": "\u0100"}])");
  check_failed(opened(unknown), fault);
  for (const auto& [word, byte] : {std::pair("\u0120", 32), std::pair("\u010A", 10), std::pair("q", 113)}) {
    auto needed = whole_pipeline();
    needed["model"]["vocab"].erase(word);
    check_failed(opened(needed), fmt::format("it lacks '{}', which represents byte {}", word, byte));
  }
}

BOOST_AUTO_TEST_CASE(lists_without_a_byte_that_texts_need_or_with_a_merge_twice_are_refused) {
  const auto json = whole_pipeline()["model"];
  std::vector<std::string> words(532);
  for (const auto& [word, number] : json["vocab"].items()) words[number.get<size_t>()] = word;
  auto merges = json["merges"].get<std::vector<std::string>>();
  BOOST_TEST(!!data::byte_pair_of(words, merges));
  merges.push_back(merges.front());
  check_error(data::byte_pair_of(words, merges), "the merge '" + merges.front() + "' occurs twice");
  merges.pop_back();
  *std::ranges::find(words, "\u0100") = "";
  BOOST_TEST(!!data::byte_pair_of(words, merges));
  *std::ranges::find(words, "\u0120") = "";
  check_error(data::byte_pair_of(words, {}),
              "not a byte-level vocabulary: it lacks '\u0120', which represents byte 32");
}

BOOST_AUTO_TEST_CASE(a_tokenizer_json_alone_is_held_to_its_configuration) {
  const scratch_folder at;
  at.write("v/tokenizer.json", whole_pipeline().dump());
  at.write("v/tokenizer_config.json", R"({"eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"})");
  check_no_tokenizer(at / "v", "names '</s>' as the end-of-text token, which is neither in tokenizer.json nor");
  at.write("v/tokenizer_config.json", R"({"add_prefix_space": true})");
  check_no_tokenizer(at / "v", "tokenizer_config.json': add_prefix_space: wanted false");
  at.write("v/tokenizer_config.json", R"({"eos_token": "the"})");
  BOOST_TEST(!!data::open_tokenizer(at / "v"));
}

BOOST_AUTO_TEST_CASE(one_vocabulary_has_one_digest_in_either_form) {
  const scratch_folder at;
  const auto files = tokenizer_of("gpt2");
  const auto described = [&](const nlohmann::json& pipeline) {
    auto t = data::open_tokenizer(at.write("v/tokenizer.json", pipeline.dump()));
    BOOST_REQUIRE_MESSAGE(t, t.error().text);
    return (*t)->description();
  };
  auto pipeline = whole_pipeline();
  BOOST_TEST(described(pipeline).digest == files->description().digest);
  BOOST_TEST(data::same_vocabulary(described(pipeline), files->description()));
  std::swap(pipeline["model"]["merges"][0], pipeline["model"]["merges"][1]);
  BOOST_TEST(!data::same_vocabulary(described(pipeline), files->description()));
  pipeline = whole_pipeline();
  pipeline["added_tokens"] = nlohmann::json::parse(R"([{"id": 600, "content": "<|user|>"}])");
  BOOST_TEST(!data::same_vocabulary(described(pipeline), files->description()));
}

BOOST_AUTO_TEST_CASE(two_tokenizers_in_one_folder_are_refused) {
  const scratch_folder at;
  at.write("v/vocab.json", content_of(fixture_path("gpt2/vocab.json")));
  at.write("v/merges.txt", content_of(fixture_path("gpt2/merges.txt")));
  nlohmann::json pipeline{{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}};
  pipeline["model"]["vocab"] = {{"!", 5}};
  at.write("v/tokenizer.json", pipeline.dump());
  check_no_tokenizer(at / "v", "model.vocab: the word '!' has number 5, but");
  pipeline["model"] = nlohmann::json::parse(R"({"merges": [["a", "b"]]})");
  at.write("v/tokenizer.json", pipeline.dump());
  check_no_tokenizer(at / "v", "model.merges: number 1 is 'a b', but '");
  check_no_tokenizer(at / "v", "wanted one tokenizer in a folder: remove the files of the other");
}

BOOST_AUTO_TEST_CASE(two_files_of_another_kind_of_tokenizer_are_refused) {
  const scratch_folder at;
  at.write("v/vocab.json", content_of(fixture_path("gpt2/vocab.json")));
  at.write("v/merges.txt", content_of(fixture_path("gpt2/merges.txt")));
  for (const char* same :
       {"{}", R"({"tokenizer_class": "GPT2Tokenizer"})", R"({"tokenizer_class": "RobertaTokenizerFast"})",
        R"({"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": false})"}) {
    at.write("v/tokenizer_config.json", same);
    BOOST_TEST(!!data::open_tokenizer(at / "v"), same);
  }
  for (const char* other : {"XLMTokenizer", "CLIPTokenizer", "CLIPTokenizerFast", "CTRLTokenizer"}) {
    at.write("v/tokenizer_config.json", R"({"tokenizer_class": ")" + std::string(other) + "\"}");
    for (const char* path : {"v", "v/vocab.json"})
      check_no_tokenizer(
          at / path,
          "tokenizer_class: wanted one that merges byte pairs and splits words like GPT-2's or Qwen2's, got " +
              std::string(other) + ", which is not supported: its texts would become different tokens");
  }
  at.write("v/tokenizer_config.json", R"({"add_prefix_space": true})");
  check_no_tokenizer(at / "v", "tokenizer_config.json': add_prefix_space: wanted false");
  at.write("v/tokenizer_config.json", "{");
  check_no_tokenizer(at / "v", "tokenizer_config.json': wanted one JSON object");
}

BOOST_AUTO_TEST_CASE(a_sentencepiece_model_of_a_class_with_other_numbers_is_refused) {
  const scratch_folder at;
  at.write("m/tokenizer.model", content_of(fixture_path("unigram.model")));
  for (const char* same :
       {"LlamaTokenizer", "LlamaTokenizerFast", "T5TokenizerFast", "GemmaTokenizer", "PreTrainedTokenizerFast"}) {
    at.write("m/tokenizer_config.json", R"({"tokenizer_class": ")" + std::string(same) + "\"}");
    BOOST_TEST(!!data::open_tokenizer(at / "m"), same);
  }
  const std::string wanted =
      "tokenizer_class: wanted one that numbers the pieces as the SentencePiece model does, got ";
  for (const char* other : {"XLMRobertaTokenizer", "CamembertTokenizerFast", "MBartTokenizer", "XGLMTokenizer",
                            "PegasusTokenizer", "AlbertTokenizerFast", "ReformerTokenizer"}) {
    at.write("m/tokenizer_config.json", R"({"tokenizer_class": ")" + std::string(other) + "\"}");
    for (const char* path : {"m", "m/tokenizer.model"}) check_no_tokenizer(at / path, wanted + other);
  }
  at.write("m/tokenizer_config.json", R"({"tokenizer_class": 3})");
  check_no_tokenizer(at / "m", "tokenizer_class: wanted a name, got number");
  at.write("m/tokenizer_config.json", R"({"add_prefix_space": true})");
  BOOST_TEST(!!data::open_tokenizer(at / "m"));
  at.write("m/tokenizer_config.json", R"({"add_prefix_space": false})");
  check_no_tokenizer(at / "m", "add_prefix_space: wanted true, as in the SentencePiece model, got false");
  // If tokenizer_config.json names no class, transformers chooses the class by config.json.
  at.write("m/tokenizer_config.json", "{}");
  at.write("m/config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  check_no_tokenizer(at / "m", "config.json': " + wanted + "XLMRobertaTokenizer");
  at.write("m/config.json", R"({"model_type": "xlm-roberta"})");
  check_no_tokenizer(at / "m", "config.json': model_type: wanted one whose tokenizer numbers the pieces as");
  at.write("m/config.json", R"({"model_type": "llama"})");
  BOOST_TEST(!!data::open_tokenizer(at / "m"));
}

BOOST_AUTO_TEST_CASE(a_tokenizer_json_that_numbers_the_pieces_in_another_way_is_refused) {
  const scratch_folder at;
  at.write("m/tokenizer.model", content_of(fixture_path("unigram.model")));
  const auto pieces = data::read_vocabulary(fixture_path("unigram.model"));
  BOOST_REQUIRE(pieces);
  nlohmann::json list = nlohmann::json::array(), numbers = nlohmann::json::object();
  for (size_t i = 0; i < pieces->entries.size(); ++i) {
    list.push_back({pieces->entries[i].text, -1.5});
    numbers[pieces->entries[i].text] = i;
  }
  const auto write = [&](const nlohmann::json& vocab) {
    at.write("m/tokenizer.json", nlohmann::json{{"model", {{"vocab", vocab}}}}.dump());
  };
  for (const auto& same : {list, numbers}) {
    write(same);
    BOOST_TEST(!!data::open_tokenizer(at / "m"));
  }
  list.insert(list.begin(), nlohmann::json::array({"<pad>", 0.0}));
  write(list);
  check_no_tokenizer(at / "m",
                     "model.vocab: the word '<unk>' has number 1, but 0 in the SentencePiece model next to it");
  numbers["."] = 7;
  write(numbers);
  check_no_tokenizer(at / "m", "model.vocab: the word '.' has number 7, but 6 in the SentencePiece model next to it");
}

BOOST_AUTO_TEST_CASE(files_that_are_cut_short_are_refused) {
  const scratch_folder at;
  const auto vocab = content_of(fixture_path("gpt2/vocab.json"));
  const auto merges = content_of(fixture_path("gpt2/merges.txt"));
  at.write("v/merges.txt", merges);
  for (size_t keep = 0; keep < vocab.size(); keep += 311) {
    at.write("v/vocab.json", vocab.substr(0, keep));
    check_no_tokenizer(at / "v", keep == 0 ? "got broken JSON" : "vocab.json:1: wanted one JSON object");
  }
  at.write("v/vocab.json", vocab);
  at.write("v/merges.txt", merges.substr(0, 1000));
  check_no_tokenizer(at / "v", "merges.txt:");
  at.write("v/merges.txt", merges.substr(0, merges.find('\n', 1000) + 1));
  check_no_tokenizer(at / "v", "do not result from them");
  for (const char* name : {"bpe.model", "unigram.model"}) {
    const auto model = content_of(fixture_path(name));
    for (size_t keep = 0; keep < model.size(); keep += 127)
      check_no_tokenizer(at.write("cut.model", model.substr(0, keep)), "wanted a SentencePiece model, got");
  }
}

BOOST_AUTO_TEST_CASE(mutated_files_are_read_or_refused) {
  const scratch_folder at;
  std::mt19937_64 random(11);
  const auto vocab = content_of(fixture_path("gpt2/vocab.json"));
  const auto merges = content_of(fixture_path("gpt2/merges.txt"));
  const auto pieces = content_of(fixture_path("unigram.model"));
  const auto mutated = [&](std::string text) {
    for (uint64_t n = 1 + random() % 4; n > 0; --n) text[random() % text.size()] = static_cast<char>(random());
    return text;
  };
  size_t read = 0;
  for (int i = 0; i < 60; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    at.write("v/vocab.json", i % 2 == 0 ? mutated(vocab) : vocab);
    at.write("v/merges.txt", i % 2 == 1 ? mutated(merges) : merges);
    at.write("m.model", mutated(pieces));
    for (const auto& path : {at / "v", at / "m.model"}) {
      auto t = data::open_tokenizer(path);
      if (!t) {
        BOOST_TEST(t.error().text.find(at.path().string()) != std::string::npos, t.error().text);
        continue;
      }
      ++read;
      std::vector<uint32_t> out;
      (void)(*t)->encode("The actors pass messages.", out);
      (void)(*t)->decode(out);
    }
  }
  BOOST_TEST(read > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
