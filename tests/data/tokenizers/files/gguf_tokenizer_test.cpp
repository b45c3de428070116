// Tests tokenizers from the vocabulary in a GGUF file: tokens, special tokens, the files that are made, and refusals.
#include "data/tokenizers/files/gguf_tokenizer.hpp"

#include <span>

#include "core/source_file.hpp"
#include "data/tokenizers/files/made_files.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
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
  return name == "pieces" ? fixture()["bpe.model"]["ids"] : fixture()["pipelines"][name]["ids"];
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_tokens_are_those_of_the_tokenizer_from_which_the_file_was_made) {
  for (const std::string name : {"qwen2", "llama-bpe", "pieces"}) BOOST_TEST_CONTEXT(name) {
      auto ours = std::move(*check_ok(data::open_tokenizer(file_of(name))));
      const auto& ids = ids_of(name);
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto text = from_hex(fixture()["text"][i]);
        BOOST_TEST(encoded(*ours, text) == ids[i].get<std::vector<uint32_t>>(), "string " << i);
      }
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
      {"tokenizer.ggml.model", text("bert"), "tokenizer.ggml.model: wanted gpt2 or llama, got 'bert'"},
      {"tokenizer.ggml.model", text("t5"), "tokenizer.ggml.model: wanted gpt2 or llama, got 't5'"},
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

BOOST_AUTO_TEST_SUITE_END()
