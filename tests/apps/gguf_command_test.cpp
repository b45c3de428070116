// Tests `troupe checkpoint to-gguf` and the other commands with GGUF files: conversion from and to other formats,
// vocabularies, refusals.
#include <nlohmann/json.hpp>

#include "formats/gguf/header.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "tests/apps/checkpoint_folder.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(gguf_command)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

/// A folder `hf` in Hugging Face's format with a complete GPT-2 of one block; `troupe checkpoint` runs in its parent
/// folder.
struct whole_model {
  scratch_folder folder;

  explicit whole_model(const std::string& more_keys = "") {
    std::vector<owned_tensor> tensors;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      owned_tensor t("transformer." + name, core::dtype::f32, std::move(shape));
      for (size_t i = 0; i < t.data.size() / sizeof(float); ++i) {
        const float x = static_cast<float>((i * 37 + name.size() * 11) % 199) / 100 - 1;
        std::memcpy(&t.data[i * sizeof x], &x, sizeof x);
      }
      tensors.push_back(std::move(t));
    };
    add("wte.weight", {256, 32});
    add("wpe.weight", {8, 32});
    for (const std::string part : {"weight", "bias"}) {
      const auto matrix = [&](int64_t in, int64_t out) {
        return part == "weight" ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out};
      };
      add("ln_f." + part, {32});
      add("h.0.ln_1." + part, {32});
      add("h.0.ln_2." + part, {32});
      add("h.0.attn.c_attn." + part, matrix(32, 96));
      add("h.0.attn.c_proj." + part, matrix(32, 32));
      add("h.0.mlp.c_fc." + part, matrix(32, 128));
      add("h.0.mlp.c_proj." + part, matrix(128, 32));
    }
    check_ok(formats::write_weights_folder(folder / "hf", all_to_write(tensors), uint64_t{1} << 30U));
    folder.write("hf/config.json", R"({"model_type":"gpt2","n_layer":1,"n_embd":32,"n_head":2,"n_positions":8,)"
                                   R"("vocab_size":256)" +
                                       more_keys + "}");
  }

  finished troupe(std::vector<std::string> arguments) const {
    std::vector<std::string> command{troupe::places::troupe_binary, "checkpoint"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command, folder.path());
  }

  void check_well(const std::vector<std::string>& arguments) const { const auto r = check_exit(0, troupe(arguments)); }

  /// Checks that the error is one sentence with these words, and that the command created no files.
  void check_refused(const std::vector<std::string>& arguments, const std::string& words, int code = 2) const {
    const auto names = [&] {
      std::vector<std::string> out;
      for (const auto& e : fs::directory_iterator(folder.path())) out.push_back(e.path().filename());
      std::ranges::sort(out);
      return out;
    };
    const auto before = names();
    const auto r = troupe(arguments);
    BOOST_TEST(r.code == code, r.err);
    BOOST_TEST(r.err.find(words) != std::string::npos, r.err);
    BOOST_TEST(before == names(), boost::test_tools::per_element());
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(weights_go_there_and_back) {
  const whole_model m;
  m.check_well({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"});
  m.check_well({"diff", "hf", "m.gguf"});
  m.check_well({"verify", "m.gguf"});
  m.check_well({"to-hf", "m.gguf", "back"});
  m.check_well({"diff", "hf", "back"});
  const auto config = scratch_folder::read(m.folder / "back/config.json");
  BOOST_TEST(config.find("GPT2LMHeadModel") != std::string::npos, config);
  for (const char* key : {R"("n_embd": 32)", R"("n_head": 2)", R"("n_positions": 8)", R"("vocab_size": 256)"})
    BOOST_TEST_CONTEXT(key) BOOST_TEST(config.find(key) != std::string::npos, config);
  // The converted file must have the vocabulary of the first one.
  m.check_well({"to-gguf", "m.gguf", "q.gguf", "--type", "q8_0"});
  m.check_well({"diff", "hf", "q.gguf", "--tolerance", "0.01"});
  BOOST_TEST(m.troupe({"diff", "hf", "q.gguf"}).code == 1);
  BOOST_TEST(m.troupe({"inspect", "q.gguf"}).out.find("from q8_0") != std::string::npos);
  const auto file = check_ok(core::source_file::open(m.folder / "q.gguf"));
  const auto header = check_ok(formats::read_gguf_header(*file));
  const auto* tokens = header->metadata.find("tokenizer.ggml.tokens");
  BOOST_TEST_REQUIRE(tokens != nullptr);
  BOOST_TEST(tokens->count() == 256U);
  BOOST_TEST(tokens->texts['a'] == "a");
  BOOST_TEST(header->metadata.find("tokenizer.ggml.merges")->count() == 1U);
}

BOOST_AUTO_TEST_CASE(deepspeeds_folders_become_files_too) {
  const whole_model m;
  m.folder.write("model.json",
                 R"({"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":2,"n_positions":8,"vocab_size":128})");
  const fs::path fixtures = (std::string(troupe::places::source_dir) + "/tests/formats/fixtures/deepspeed_gpt2");
  for (const char* name : {"stage1_bf16", "stage2_fp32", "stage3_fp32", "pipeline_fp32"}) {
    m.check_well({"to-gguf", fixtures / name, "ds.gguf", "--type", "f32", "--tokenizer", "bytes", "--model-config",
                  "model.json", "--force"});
    m.check_well({"diff", "ds.gguf", fixtures / name, "--tolerance", "0"});
  }
}

BOOST_AUTO_TEST_CASE(a_vocabulary_lies_beside_the_weights_or_is_named) {
  const whole_model m;
  m.check_refused({"to-gguf", "hf", "m.gguf"},
                  "has no tokenizer that can be written to a GGUF file: give one by --tokenizer");
  const fs::path fixtures = (std::string(troupe::places::source_dir) + "/tests/data/fixtures");
  m.check_refused({"to-gguf", "hf", "m.gguf", "--tokenizer", fixtures / "gpt2"}, "tokens, the model 256");
  m.check_refused({"to-gguf", "hf", "m.gguf", "--tokenizer", "none"}, "'none': wanted a tokenizer.model");
  m.folder.write("hf/tokenizer.json",
                 R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},)"
                 R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}})");
  m.check_well({"to-gguf", "hf", "m.gguf"});
  const auto file = check_ok(core::source_file::open(m.folder / "m.gguf"));
  const auto header = check_ok(formats::read_gguf_header(*file));
  const auto* tokens = header->metadata.find("tokenizer.ggml.tokens");
  BOOST_TEST_REQUIRE(tokens != nullptr);
  BOOST_TEST(tokens->count() == 256U);
  BOOST_TEST(tokens->texts[2] == "ab");
  BOOST_TEST(tokens->texts[3] == "[PAD3]");
  // The file alone says its tokenizer: a folder that is made from it has one, and a run or another file may read it.
  m.check_well({"to-hf", "m.gguf", "back"});
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) BOOST_TEST(fs::exists(m.folder / "back" / name));
  const auto made = scratch_folder::read(m.folder / "back/tokenizer.json");
  BOOST_TEST(made.find("\"a b\"") != std::string::npos, made);
  BOOST_TEST(made.find("PAD") == std::string::npos, made);
  m.check_well({"to-gguf", "back", "again.gguf", "--tokenizer", "m.gguf"});
  const auto again = check_ok(core::source_file::open(m.folder / "again.gguf"));
  const auto keys = check_ok(formats::read_gguf_header(*again));
  BOOST_TEST((keys->metadata.find("tokenizer.ggml.tokens")->texts == tokens->texts));
}

BOOST_AUTO_TEST_CASE(a_job_from_a_file_and_tokens_use_its_vocabulary) {
  const whole_model m;
  m.check_well({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"});
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the quick brown fox\n";
  m.folder.write("corpus.txt", text);
  const auto troupe_in_folder = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), troupe::places::troupe_binary);
    return check_exit(0, run(arguments, m.folder.path()));
  };
  troupe_in_folder({"init", "job.yaml", "--from", "m.gguf", "--text", "corpus.txt", "--steps", "1"});
  const auto job = scratch_folder::read(m.folder / "job.yaml");
  const auto at = job.find("tokenizer:");
  BOOST_TEST_REQUIRE(at != std::string::npos, job);
  BOOST_TEST(job.substr(at, job.find('\n', at) - at).find("m.gguf") != std::string::npos, job);
  troupe_in_folder({"data", "tokenize", "corpus.txt", "--tokenizer", "m.gguf", "--output", "corpus.bin"});
  const auto tokens = scratch_folder::read(m.folder / "corpus.bin.json");
  BOOST_TEST(tokens.find("\"bytes\"") != std::string::npos, tokens);
}

BOOST_AUTO_TEST_CASE(rules_that_no_name_of_llama_cpp_states_are_refused) {
  const whole_model m;
  const auto words = [&](const std::string& more_of_model, const std::string& more) {
    m.folder.write("hf/tokenizer.json",
                   R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"])" + more_of_model +
                       R"(},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true})" + more +
                       "}");
  };
  words("", "");
  m.check_well({"to-gguf", "hf", "m.gguf"});
  words(R"(,"ignore_merges":true)", "");
  m.check_refused({"to-gguf", "hf", "other.gguf"}, "model.ignore_merges: wanted false, as gpt-2 has, got true");
  words("", R"(,"normalizer":{"type":"NFC"})");
  m.check_refused({"to-gguf", "hf", "other.gguf"}, "normalizer: wanted none, as gpt-2 has, got {\"type\":\"NFC\"}");
  words(R"(,"dropout":0.1)", "");
  m.check_refused({"to-gguf", "hf", "other.gguf"}, "model.dropout: wanted null");
}

BOOST_AUTO_TEST_CASE(a_vocabulary_of_a_file_that_is_not_known_is_told_when_a_folder_is_written) {
  const whole_model m;
  m.check_well({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"});
  auto file = scratch_folder::read(m.folder / "m.gguf");
  const auto at = file.find("gpt-2", file.find("tokenizer.ggml.pre"));
  BOOST_TEST_REQUIRE(at != std::string::npos);
  file.replace(at, 5, "other");
  m.folder.write("other.gguf", file);
  const auto r = check_exit(0, m.troupe({"to-hf", "other.gguf", "out"}));
  BOOST_TEST(r.err.find("warning: no tokenizer is written: ") != std::string::npos, r.err);
  BOOST_TEST(r.err.find("tokenizer.ggml.pre: wanted one of gpt-2") != std::string::npos, r.err);
  BOOST_TEST(!fs::exists(m.folder / "out/tokenizer.json"));
}

BOOST_AUTO_TEST_CASE(a_vocabulary_that_training_would_refuse_is_refused) {
  const whole_model m;
  const fs::path fixtures = (std::string(troupe::places::source_dir) + "/tests/data/fixtures");
  m.folder.write("hf/tokenizer.model", scratch_folder::read(fixtures / "unigram.model"));
  m.check_well({"to-gguf", "hf", "m.gguf"});
  const auto refused = [&](const char* file, const std::string& text, const std::string& words) {
    m.folder.write(std::string("hf/") + file, text);
    for (const char* place : {"hf", "hf/tokenizer.model"})
      m.check_refused({"to-gguf", "hf", "other.gguf", "--tokenizer", place}, words);
    fs::remove(m.folder / "hf" / file);
  };
  refused(
      "tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})",
      "tokenizer_class: wanted one that numbers the pieces as the SentencePiece model does, got XLMRobertaTokenizer");
  refused("tokenizer_config.json", R"({"add_prefix_space": false})", "add_prefix_space: wanted true");
  refused("tokenizer_config.json", R"({"eos_token": "<|end|>"})", "names '<|end|>' as the end-of-text token, which is");
  refused("tokenizer_config.json", R"({"bos_token": "<|begin|>"})",
          "names '<|begin|>' as the beginning-of-text token, which is neither in the vocabulary nor in");
  refused("tokenizer.json", R"({"model": {"vocab": {".": 7}}})",
          "model.vocab: the word '.' has number 7, but 6 in the");
  fs::remove(m.folder / "hf/tokenizer.model");
  m.folder.write("hf/tokenizer.json",
                 R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},)"
                 R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}})");
  for (const auto& [text, words] :
       {std::pair{R"({"eos_token": "</s>"})", "names '</s>' as the end-of-text token"},
        {R"({"bos_token": "<s>"})", "names '<s>' as the beginning-of-text token"},
        {R"({"add_prefix_space": true})", "tokenizer_config.json': add_prefix_space: wanted false"}}) {
    m.folder.write("hf/tokenizer_config.json", text);
    m.check_refused({"to-gguf", "hf", "other.gguf"}, words);
  }
  m.folder.write("hf/tokenizer_config.json", R"({"eos_token": "ab", "bos_token": "a"})");
  m.check_well({"to-gguf", "hf", "other.gguf"});
}

BOOST_AUTO_TEST_CASE(a_vocabulary_without_ends_of_texts_names_a_token_that_no_text_has) {
  const whole_model m;
  const auto metadata = [&] {
    m.check_well({"to-gguf", "hf", "m.gguf", "--force"});
    const auto file = check_ok(core::source_file::open(m.folder / "m.gguf"));
    return check_ok(formats::read_gguf_header(*file))->metadata;
  };
  const auto check_ends = [&](uint64_t begin, uint64_t end) {
    const auto keys = metadata();
    BOOST_TEST((keys.whole("tokenizer.ggml.bos_token_id") == begin));
    BOOST_TEST((keys.whole("tokenizer.ggml.eos_token_id") == end));
    const auto* adds_begin = keys.find("tokenizer.ggml.add_bos_token");
    BOOST_TEST_REQUIRE(adds_begin != nullptr);
    BOOST_TEST(adds_begin->bits == 0U);
  };
  const auto check_config = [&](const nlohmann::json& begin, const nlohmann::json& end) {
    m.check_well({"to-hf", "m.gguf", "back", "--force"});
    const auto config = nlohmann::json::parse(scratch_folder::read(m.folder / "back/config.json"));
    BOOST_TEST(config.at("bos_token_id") == begin);
    BOOST_TEST(config.at("eos_token_id") == end);
  };
  const auto words = [&](const std::string& list) {
    m.folder.write("hf/tokenizer.json",
                   R"({"model":{"type":"BPE","vocab":)" + list +
                       R"(,"merges":["a b"]},)"
                       R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}})");
  };
  words(R"({"a":0,"b":1,"ab":2})");
  check_ends(3, 3);  // the first token that only pads the vocabulary
  check_config(nullptr, nullptr);
  words(R"({"a":0,"b":1,"ab":2,"\u0100":3})");
  check_ends(3, 3);  // byte 0
  check_config(nullptr, nullptr);
  m.folder.write("hf/tokenizer_config.json", R"({"eos_token": "ab", "add_bos_token": true})");
  check_ends(3, 2);
  check_config(nullptr, 2);
  fs::remove(m.folder / "hf/tokenizer.json");
  fs::remove(m.folder / "hf/tokenizer_config.json");
  const fs::path fixtures = (std::string(troupe::places::source_dir) + "/tests/data/fixtures");
  const std::string minus_one = std::string(9, '\xFF') + '\x01';
  const auto none = "\x12\x18\xC8\x02" + minus_one + "\xD0\x02" + minus_one;  // bos_id and eos_id of the trainer: -1
  m.folder.write("hf/tokenizer.model", scratch_folder::read(fixtures / "unigram.model") + none);
  check_ends(0, 0);
}

BOOST_AUTO_TEST_CASE(a_sentencepiece_model_that_llama_cpp_encodes_otherwise_is_refused_or_named) {
  const whole_model m;
  const fs::path fixtures = (std::string(troupe::places::source_dir) + "/tests/data/fixtures");
  const auto unigram = scratch_folder::read(fixtures / "unigram.model");
  const auto convert = [&](const std::string& more) {
    m.folder.write("hf/tokenizer.model", unigram + more);
    return m.troupe({"to-gguf", "hf", "m.gguf", "--force"});
  };
  BOOST_TEST(convert("").err.find("warning") == std::string::npos);
  const auto bpe = convert("\x12\x02\x18\x02");  // model_type of the trainer: BPE
  BOOST_TEST(bpe.code == 0, bpe.err);
  BOOST_TEST(bpe.err.find("come from texts with characters that the model's normaliser replaces, with repeated spaces, "
                          "which the model removes, with characters that no piece has") != std::string::npos,
             bpe.err);
  const auto suffix = convert("\x12\x03\xC0\x01\x01");  // treat_whitespace_as_suffix of the trainer
  BOOST_TEST(suffix.code == 2);
  BOOST_TEST(suffix.err.find("ends pieces with a space (treat_whitespace_as_suffix)") != std::string::npos, suffix.err);
  const auto plain = convert(std::string("\x1A\x02\x28\x00", 4));  // escape_whitespaces of the normaliser
  BOOST_TEST(plain.code == 2);
  BOOST_TEST(plain.err.find("has plain spaces (escape_whitespaces: false)") != std::string::npos, plain.err);
}

BOOST_AUTO_TEST_CASE(what_a_file_cannot_say_is_refused) {
  const whole_model m;
  m.check_refused({"to-gguf", "hf", "m.gguf", "--type", "q3"}, "--type: wanted one of f32, f16, bf16, q8_0");
  m.check_refused({"to-gguf", "hf", "m.gguf", "--tokenizer", "bytes-as-ids"},
                  "--tokenizer: wanted a path or 'bytes', got bytes-as-ids: 'bytes' writes a vocabulary of bytes");
  m.folder.write("taken.gguf", "mine");
  m.check_refused({"to-gguf", "hf", "taken.gguf", "--tokenizer", "bytes"}, "'taken.gguf' exists");
  m.check_refused({"to-gguf", "hf", "taken.gguf", "--tokenizer", "bytes", "--force"},
                  "'taken.gguf' cannot be replaced");
  m.check_well({"to-gguf", "hf", "ours.gguf", "--tokenizer", "bytes"});
  m.check_well({"to-gguf", "hf", "ours.gguf", "--tokenizer", "bytes", "--force", "--type", "q4_0"});
  m.check_refused({"to-gguf", "ours.gguf", "ours.gguf", "--force"}, "which is read");
  const whole_model other(R"(,"activation_function":"gelu")");
  other.check_refused({"to-gguf", "hf", "m.gguf", "--tokenizer", "bytes"},
                      "model key 'activation_function' must be gelu_new for a GGUF file");
  for (const char* key : {"\"scale_attn_weights\":false", "\"scale_attn_by_inverse_layer_idx\":true"}) {
    const whole_model scaled(std::string(",") + key);
    const std::string name(key + 1, std::string_view(key).find(':') - 2);
    scaled.check_refused({"to-gguf", "hf", "m.gguf", "--tokenizer", "bytes"},
                         "model key '" + name + "' differs from that of every GGUF file of architecture gpt2");
  }
  const whole_model wide(R"(,"n_inner":64)");
  wide.check_refused({"to-gguf", "hf", "m.gguf", "--tokenizer", "bytes"},
                     "must have the shape (32, 64), got (32, 128)");
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_refused_in_one_sentence) {
  const whole_model m;
  m.check_well({"to-gguf", "hf", "m.gguf", "--tokenizer", "bytes"});
  const auto whole = scratch_folder::read(m.folder / "m.gguf");
  m.folder.write("cut.gguf", whole.substr(0, whole.size() / 2));
  m.check_refused({"inspect", "cut.gguf"}, "'cut.gguf' is not a valid GGUF file: tensor '");
  m.check_refused({"to-hf", "cut.gguf", "out"}, "'cut.gguf' is not a valid GGUF file");
  auto claims = whole;
  std::fill_n(claims.begin() + 8, 8, '\x7F');
  m.folder.write("claims.gguf", claims);
  m.check_refused({"verify", "claims.gguf"}, "at most 1000000 and 65536 are allowed");
}

BOOST_AUTO_TEST_SUITE_END()
