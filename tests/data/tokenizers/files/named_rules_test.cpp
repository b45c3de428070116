// Tests the names by which GGUF files state how a byte-level tokenizer prepares texts.
#include "data/tokenizers/files/named_rules.hpp"

#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(named_rules)

using namespace troupe;
using namespace troupe::tests;

namespace {

nlohmann::json rules_of(const std::string& name) {
  const auto& from = fixture()["pipelines"][name];
  nlohmann::json out{{"pre_tokenizer", from["pre_tokenizer"]}, {"normalizer", from["normalizer"]}};
  out["model"]["ignore_merges"] = from["ignore_merges"];
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_rules_of_a_real_tokenizer_json_have_their_name) {
  for (const char* name : {"smollm", "llama-bpe", "qwen2"})
    BOOST_TEST(*check_ok(data::name_of_rules("tokenizer.json", rules_of(name))) == name);
}

BOOST_AUTO_TEST_CASE(a_name_becomes_rules_that_have_this_name) {
  for (const char* name : {"gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "gpt-4o", "tekken", "default"}) {
    nlohmann::json pipeline;
    check_ok(data::put_named_rules(name, pipeline));
    BOOST_TEST(*check_ok(data::name_of_rules("tokenizer.json", pipeline)) == name);
  }
  nlohmann::json pipeline;
  check_failed(data::put_named_rules("viking", pipeline), "wanted one of gpt-2, smollm, llama-bpe, dbrx, qwen2");
}

BOOST_AUTO_TEST_CASE(keys_that_change_no_token_change_no_name) {
  auto rules = rules_of("llama-bpe");
  auto& split = rules["pre_tokenizer"]["pretokenizers"][0];
  split["behavior"] = "Removed";
  split["invert"] = true;
  rules["normalizer"] = {{"type", "Sequence"}, {"normalizers", nlohmann::json::array()}};
  BOOST_TEST(*check_ok(data::name_of_rules("tokenizer.json", rules)) == "llama-bpe");
}

BOOST_AUTO_TEST_CASE(rules_that_differ_in_one_key_are_refused_with_that_key) {
  auto rules = rules_of("qwen2");
  rules["normalizer"] = nullptr;
  check_failed(data::name_of_rules("tokenizer.json", rules),
               "'tokenizer.json': normalizer: wanted NFC, as qwen2 has, got null");
  rules = rules_of("qwen2");
  rules["model"]["ignore_merges"] = true;
  check_failed(data::name_of_rules("tokenizer.json", rules),
               "model.ignore_merges: wanted false, as qwen2 has, got true");
  rules = rules_of("smollm");
  rules["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
  check_failed(data::name_of_rules("tokenizer.json", rules), "pre_tokenizer: wanted one that llama.cpp has a name for");
  // Llama 3's words have two names, with and without ignore_merges.
  rules = rules_of("llama-bpe");
  rules["model"]["ignore_merges"] = false;
  BOOST_TEST(*check_ok(data::name_of_rules("tokenizer.json", rules)) == "dbrx");
}

BOOST_AUTO_TEST_CASE(without_a_tokenizer_json_the_class_names_the_rules) {
  const scratch_folder at;
  BOOST_TEST(*check_ok(data::rules_name_at(at.path())) == "gpt-2");
  at.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  BOOST_TEST(*check_ok(data::rules_name_at(at.path())) == "qwen2");
  BOOST_TEST(*check_ok(data::rules_name_at(fixture_path("single/llama-bpe.gguf"))) == "llama-bpe");
}

BOOST_AUTO_TEST_SUITE_END()
