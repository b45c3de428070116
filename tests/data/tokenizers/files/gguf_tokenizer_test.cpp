// Tests tokenizers from the vocabulary in a GGUF file: tokens, special tokens, the files that are made, and refusals.
#include "data/tokenizers/files/gguf_tokenizer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "core/source_file.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/files/made_files.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/text/base64.hpp"
#include "data/tokenizers/vocabulary.hpp"
#include "formats/gguf/header.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(gguf_tokenizer)

using namespace troupe;
using namespace troupe::tests;
using formats::gguf_metadata;
using formats::gguf_value;

namespace {

std::filesystem::path file_of(const std::string& name) { return fixture_path("single/" + name + ".gguf"); }

gguf_metadata keys_of(const std::string& name) {
  const auto file = check_ok(core::source_file::open(file_of(name)));
  return check_ok(formats::read_gguf_header(*file))->metadata;
}

/// Writes a GGUF file without tensors that has these keys, and returns its path.
std::filesystem::path written(const scratch_folder& at, const gguf_metadata& keys) {
  std::vector<formats::gguf_tensor> none;
  return at.write("m.gguf", *check_ok(formats::format_gguf_header(keys, none)));
}

/// Returns the ids that the real packages return for the fixture's texts.
const nlohmann::json& ids_of(const std::string& name) {
  if (name == "pieces") return fixture()["bpe.model"]["ids"];
  if (name == "unigram") return fixture()["unigram.model"]["ids"];
  return fixture()["pipelines"][name]["ids"];
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_tokens_are_those_of_the_tokenizer_from_which_the_file_was_made) {
  for (const std::string name : {"qwen2", "llama-bpe", "pieces", "unigram"}) BOOST_TEST_CONTEXT(name) {
      auto ours = std::move(*check_ok(data::open_tokenizer(file_of(name))));
      const auto& ids = ids_of(name);
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto text = from_hex(fixture()["text"][i]);
        BOOST_TEST(encoded(*ours, text) == ids[i].get<std::vector<uint32_t>>(), "string " << i);
      }
    }
}

// The tokens are those that the package tokenizers makes of texts with BERT's rules for texts without case.
BOOST_AUTO_TEST_CASE(a_vocabulary_of_word_pieces_divides_texts_as_an_uncased_bert) {
  auto ours = std::move(*check_ok(data::open_tokenizer(file_of("bert"))));
  BOOST_TEST(ours->description().kind == "wordpiece");
  const auto texts = nlohmann::json::parse(content_of(fixture_path("single/bert_ids.json")));
  BOOST_TEST(texts.size() > 30U);
  for (const auto& one : texts) {
    const auto text = one[0].get<std::string>();
    BOOST_TEST(encoded(*ours, text) == one[1].get<std::vector<uint32_t>>(), text);
  }
  const auto made = check_ok(data::gguf_tokenizer::read(file_of("bert")));
  const auto pipeline = check_ok(made->pipeline());
  BOOST_TEST(((*pipeline)["model"]["vocab"]["##e"].is_number() && (*pipeline)["model"]["unk_token"] == "[UNK]"));
  BOOST_TEST(((*pipeline)["post_processor"]["single"][0]["SpecialToken"]["id"] == "[CLS]"));
  BOOST_TEST(((*pipeline)["post_processor"]["single"][2]["SpecialToken"]["id"] == "[SEP]"));
  BOOST_TEST((made->configuration()["mask_token"] == "[MASK]"));
  const scratch_folder at;
  const auto files = check_ok(data::made_files(file_of("bert")));
  for (const auto& file : *files) at.write(file.name, file.text);
  const auto beside = check_ok(data::open_tokenizer(at.path()));
  BOOST_TEST(data::same_vocabulary((*beside)->description(), ours->description()));
}

BOOST_AUTO_TEST_CASE(a_vocabulary_of_word_pieces_with_case_or_without_kinds_is_refused) {
  const scratch_folder at;
  auto cased = keys_of("bert");
  auto words = cased.find("tokenizer.ggml.tokens")->texts;
  words[20] = "\u2581The";
  cased.set("tokenizer.ggml.tokens", gguf_value::of(std::move(words)));
  check_no_tokenizer(written(at, cased), "tokenizer.ggml.tokens: wanted words in lower case");
  auto twice = keys_of("bert");
  words = twice.find("tokenizer.ggml.tokens")->texts;
  words[20] = "\u2581##e";
  twice.set("tokenizer.ggml.tokens", gguf_value::of(std::move(words)));
  check_no_tokenizer(written(at, twice), "tokenizer.ggml.tokens: the word '##e' occurs twice");
  for (const std::string key : {"tokenizer.ggml.token_type", "tokenizer.ggml.unknown_token_id"}) {
    auto keys = keys_of("bert");
    std::erase_if(keys.entries, [&](const auto& e) { return e.first == key; });
    check_no_tokenizer(written(at, keys), key + ": wanted");
  }
}

BOOST_AUTO_TEST_CASE(control_tokens_are_text_and_a_word_of_the_user_is_one_token) {
  auto words = std::move(*check_ok(data::open_tokenizer(file_of("qwen2"))));
  BOOST_TEST(words->description().kind == "qwen2");
  BOOST_TEST(words->vocab_size() == 541U);
  BOOST_TEST(words->end_of_text().value() == 539U);  // <|im_end|>, not GPT-2's end of text
  BOOST_TEST(encoded(*words, "x<think>y") == (std::vector<uint32_t>{87, 540, 88}), boost::test_tools::per_element());
  BOOST_TEST(encoded(*words, "<|im_end|>").size() > 1U);
  auto pieces = std::move(*check_ok(data::open_tokenizer(file_of("pieces"))));
  BOOST_TEST(pieces->end_of_text().value() == 2U);
  BOOST_TEST(encoded(*pieces, "x<|user|>y") == (std::vector<uint32_t>{518, 549, 560, 534}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_made_files_state_rules_special_tokens_and_template) {
  const auto made = check_ok(data::gguf_tokenizer::read(file_of("qwen2")));
  const auto pipeline = check_ok(made->pipeline());
  BOOST_TEST(((*pipeline)["normalizer"]["type"] == "NFC"));
  BOOST_TEST((*pipeline)["post_processor"].is_null());
  BOOST_TEST(!(*pipeline)["model"]["vocab"].contains("[PAD541]"));
  BOOST_TEST(((*pipeline)["added_tokens"].size() == 4U));
  const auto keys = made->configuration();
  BOOST_TEST((keys["eos_token"] == "<|im_end|>"));
  BOOST_TEST((keys["add_bos_token"] == false));
  BOOST_TEST((keys["model_max_length"] == 64));
  BOOST_TEST(has(keys["chat_template"].get<std::string>(), "<|im_start|>"));
  BOOST_TEST((made->generation()["eos_token_id"] == 539));
  // Llama 3's texts begin with a token without a key that says so.
  const auto other = check_ok(data::gguf_tokenizer::read(file_of("llama-bpe")));
  const auto begins = check_ok(other->pipeline());
  BOOST_TEST(((*begins)["model"]["ignore_merges"] == true));
  BOOST_TEST(((*begins)["post_processor"]["single"][0]["SpecialToken"]["id"] == "<|begin_of_text|>"));
  std::vector<std::string> names;
  const auto files = check_ok(data::made_files(file_of("qwen2")));
  for (const auto& file : *files) names.push_back(file.name);
  BOOST_TEST(names == (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json", "generation_config.json"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_written_folder_of_made_files_has_the_same_vocabulary) {
  const scratch_folder at;
  const auto files = check_ok(data::made_files(file_of("qwen2")));
  for (const auto& file : *files) at.write(file.name, file.text);
  const auto beside = check_ok(data::open_tokenizer(at.path()));
  const auto own = check_ok(data::open_tokenizer(file_of("qwen2")));
  BOOST_TEST(data::same_vocabulary((*beside)->description(), (*own)->description()));
  const auto listed = check_ok(data::read_vocabulary(file_of("qwen2")));
  BOOST_TEST(listed->entries.size() == 541U);
  BOOST_TEST((listed->special.end == 539U));
}

BOOST_AUTO_TEST_CASE(tokens_that_no_text_has_are_no_ends_of_texts) {
  const scratch_folder at;
  auto keys = keys_of("qwen2");
  keys.set("tokenizer.ggml.eos_token_id", gguf_value::of(uint32_t{0}));
  const auto t = check_ok(data::open_tokenizer(written(at, keys)));
  BOOST_TEST((*t)->end_of_text().value() == 531U);  // <|endoftext|>, which byte pairs have as their usual end
}

BOOST_AUTO_TEST_CASE(a_vocabulary_of_bytes_is_the_byte_tokenizer) {
  const scratch_folder at;
  auto keys = keys_of("qwen2");
  std::vector<std::string> words;
  for (const auto& entry : data::byte_vocabulary().entries) words.push_back(entry.text);
  keys.set("tokenizer.ggml.token_type", gguf_value::of(std::span<const int32_t>(std::vector<int32_t>(256, 1))));
  keys.set("tokenizer.ggml.tokens", gguf_value::of(std::move(words)));
  keys.set("tokenizer.ggml.merges", gguf_value::of(std::vector<std::string>{data::gguf_merge_of_nothing}));
  const auto file = written(at, keys);
  BOOST_TEST((*check_ok(data::open_tokenizer(file)))->description().kind == "bytes");
  BOOST_TEST(check_ok(data::read_vocabulary(file))->entries.size() == 256U);
}

BOOST_AUTO_TEST_CASE(a_vocabulary_that_is_not_understood_is_refused_by_its_key) {
  struct wish {
    std::string key;
    gguf_value value;
    std::string words;
  };
  const auto text = [](const char* x) { return gguf_value::of(std::string(x)); };
  const std::vector<wish> wishes{
      {"tokenizer.ggml.pre", text("viking"), "tokenizer.ggml.pre: wanted one of gpt-2, smollm"},
      {"tokenizer.ggml.model", text("rwkv"), "tokenizer.ggml.model: wanted gpt2, llama, t5 or bert, got 'rwkv'"},
      {"tokenizer.ggml.model", text("t5"), "tokenizer.ggml.scores: wanted it, because pieces have scores"},
      {"tokenizer.ggml.tokens", gguf_value::of(std::vector<std::string>{}), "wanted a list of 1 to"},
      {"tokenizer.ggml.tokens", gguf_value::of(std::vector<std::string>(542, "a")), "the token 'a' occurs twice"},
      {"tokenizer.ggml.tokens", gguf_value::of(std::vector<std::string>(542, "\xff")), "wanted texts in UTF-8"},
      {"tokenizer.ggml.token_type", gguf_value::of(std::span<const int32_t>()), "wanted a number for each of 542"},
      {"tokenizer.ggml.merges", text("a b"), "tokenizer.ggml.merges: wanted a list of texts"},
      {"tokenizer.ggml.add_space_prefix", gguf_value::of(true), "add_space_prefix: wanted false"}};
  for (const auto& [key, value, words] : wishes) BOOST_TEST_CONTEXT(words) {
      const scratch_folder at;
      auto keys = keys_of("qwen2");
      keys.set(key, value);
      check_no_tokenizer(written(at, keys), words);
    }
  const scratch_folder at;
  auto keys = keys_of("qwen2");
  std::erase_if(keys.entries, [](const auto& e) { return e.first == "tokenizer.ggml.tokens"; });
  const auto file = written(at, keys);
  check_no_tokenizer(file, "has no tokenizer: wanted the key tokenizer.ggml.tokens");
  BOOST_TEST(!data::has_vocabulary(file));
  BOOST_TEST(data::has_vocabulary(file_of("qwen2")));
}

BOOST_AUTO_TEST_CASE(a_unigram_vocabulary_becomes_a_tokenizer_json_with_the_same_tokens) {
  for (const bool removes : {true, false}) BOOST_TEST_CONTEXT("removes spaces " << removes) {
      const scratch_folder at;
      auto keys = keys_of("unigram");
      keys.set("tokenizer.ggml.remove_extra_whitespaces", gguf_value::of(removes));
      const auto* const kinds = keys.find("tokenizer.ggml.token_type");
      BOOST_TEST_REQUIRE(kinds != nullptr);
      std::vector<int32_t> changed(kinds->count());
      std::memcpy(changed.data(), kinds->numbers.data(), kinds->numbers.size());
      std::ranges::replace(changed, 4, 1);  // tokens of the user are refused there
      keys.set("tokenizer.ggml.token_type", gguf_value::of(std::span<const int32_t>(changed)));
      const auto file = written(at, keys);
      const auto files = check_ok(data::made_files(file));
      for (const auto& made : *files) at.write("hf/" + made.name, made.text);
      auto own = std::move(*check_ok(data::open_tokenizer(file)));
      auto beside = std::move(*check_ok(data::open_tokenizer(at / "hf")));
      BOOST_TEST(own->end_of_text().value() == beside->end_of_text().value());
      size_t compared = 0;  // texts but the one with the words of control tokens, which are tokens in a tokenizer.json
      const auto compare = [&](const std::string& text) {
        BOOST_TEST(encoded(*beside, text) == encoded(*own, text), text);
        ++compared;
      };
      for (const auto& one : fixture()["text"])
        if (const auto text = from_hex(one); core::is_utf8(text) && !text.starts_with("<|endoftext|> <s>"))
          compare(text);
      for (const char* text :
           {" x", "  x  y  ", " ", "x \n", "\t", "\u2581x", " \u2581x", "x\u2581 ", "a\u3000\u3000b"})
        compare(text);
      BOOST_TEST(compared > 40U);
    }
}

BOOST_AUTO_TEST_CASE(the_made_files_of_a_unigram_vocabulary_state_scores_rules_and_the_end_of_texts) {
  const auto made = check_ok(data::gguf_tokenizer::read(file_of("unigram")));
  const auto pipeline = check_ok(made->pipeline());
  BOOST_TEST(((*pipeline)["model"]["type"] == "Unigram"));
  BOOST_TEST(((*pipeline)["model"]["unk_id"] == 0));
  BOOST_TEST(((*pipeline)["model"]["vocab"][4][0] == "\u2581"));
  BOOST_TEST(((*pipeline)["model"]["vocab"][4][1].get<double>() < -2.0));
  const auto model = content_of(fixture_path("unigram.model"));
  const auto table =
      data::from_base64((*pipeline)["normalizer"]["normalizers"][0]["precompiled_charsmap"].get<std::string>());
  BOOST_TEST_REQUIRE(table.has_value());
  BOOST_TEST(table->size() == 1037U);
  BOOST_TEST(has(model, *table));
  // Texts of unigrams end with the token unless a key says otherwise.
  BOOST_TEST((made->configuration()["add_eos_token"] == true));
  BOOST_TEST((made->configuration()["add_bos_token"] == false));
  BOOST_TEST(((*pipeline)["post_processor"]["single"][1]["SpecialToken"]["id"] == "</s>"));
  check_failed(
      data::made_files(file_of("unigram")), core::error_kind::bad_input,
      "tokenizer.ggml.token_type: wanted no unused and no user-defined token for a tokenizer.json of unigrams");
}

BOOST_AUTO_TEST_CASE(a_unigram_vocabulary_with_keys_that_are_not_known_is_refused_by_the_key) {
  struct wish {
    std::string key;
    gguf_value value;
    std::string words;
  };
  const auto text = [](const char* x) { return gguf_value::of(std::string(x)); };
  const auto bytes = [](const std::string& x) {
    gguf_value out{.type = formats::gguf_value_type::array, .items = formats::gguf_value_type::u8};
    for (const char c : x) out.numbers.push_back(static_cast<std::byte>(c));
    return out;
  };
  const auto count = keys_of("unigram").find("tokenizer.ggml.tokens")->count();
  std::vector<float> scores(count, 1);
  scores[7] = std::numeric_limits<float>::infinity();
  const std::vector<wish> wishes{
      {"tokenizer.ggml.normalizer.lowercase", gguf_value::of(true),
       "normalizer.lowercase: wanted no such key for pieces"},
      {"tokenizer.ggml.pre", text("qwen2"), "tokenizer.ggml.pre: wanted default, since pieces of unigrams"},
      {"tokenizer.ggml.add_space_prefix", gguf_value::of(uint32_t{1}), "add_space_prefix: wanted true or false"},
      {"tokenizer.ggml.remove_extra_whitespaces", text("yes"), "remove_extra_whitespaces: wanted true or false"},
      {"tokenizer.ggml.precompiled_charsmap", text("x"), "precompiled_charsmap: wanted a list of bytes"},
      {"tokenizer.ggml.precompiled_charsmap", bytes("abc"),
       "precompiled_charsmap: wanted a table of rules, got a table"},
      {"tokenizer.ggml.unknown_token_id", gguf_value::of(uint32_t{9}),
       "unknown_token_id: wanted 0, the token of the kind"},
      {"tokenizer.ggml.scores", gguf_value::of(std::span<const float>(scores)),
       "scores: wanted finite scores, got inf"},
      {"tokenizer.ggml.token_type", gguf_value::of(std::span<const int32_t>(std::vector<int32_t>(count, 1))),
       "token_type: wanted one token of the kind 2, for unknown characters, got 0"}};
  for (const auto& [key, value, words] : wishes) BOOST_TEST_CONTEXT(words) {
      const scratch_folder at;
      auto keys = keys_of("unigram");
      keys.set(key, value);
      check_no_tokenizer(written(at, keys), words);
    }
  const scratch_folder at;
  auto keys = keys_of("unigram");
  std::erase_if(keys.entries, [](const auto& e) { return e.first == "tokenizer.ggml.add_space_prefix"; });
  check_no_tokenizer(written(at, keys), "tokenizer.ggml.add_space_prefix: wanted true or false, because programs");
  // SentencePiece reads both, and a tokenizer.json has no rule for it.
  keys.set("tokenizer.ggml.add_space_prefix", gguf_value::of(false));
  auto kinds = std::vector<int32_t>(count, 1);
  kinds[0] = 2;
  keys.set("tokenizer.ggml.token_type", gguf_value::of(std::span<const int32_t>(kinds)));
  const auto file = written(at, keys);
  BOOST_TEST((*check_ok(data::open_tokenizer(file)))->vocab_size() == count);
  check_failed(data::made_files(file), core::error_kind::bad_input, "remove_extra_whitespaces: wanted false without");
}

BOOST_AUTO_TEST_SUITE_END()
