// Tests fine-tuning by the command line: what a run says about conversations, and the question that it answers at its
// end.
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(finetune)

using namespace troupe;
using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

const std::string fixture = std::string(places::source_dir) + "/tests/data/fixtures/chat";

/// Returns a job that learns the fixture's conversations by heart, with `more` lines.
std::string job_with(const std::string& more) {
  return fmt::format(
      "model: {{path: {0}/model}}\n"
      "data: {{chat: {0}/messages.jsonl, tokenizer: {0}/model, sequence_length: 128}}\n"
      "parallel: {{data: 2}}\n"
      "seed: 1\n"
      "steps: 60\n"
      "train_batch_size: 4\n"
      "train_micro_batch_size_per_gpu: 2\n"
      "optimizer: {{type: AdamW, params: {{lr: 2.0e-2, weight_decay: 0}}}}\n"
      "zero_optimization: {{stage: 3}}\n"
      "telemetry: {{trace: false}}\n"
      "output: out\n{1}",
      fixture, more);
}

}  // namespace

// 60 steps are enough for transformers to learn these answers with the same rate.
BOOST_AUTO_TEST_CASE(a_run_answers_a_question_in_the_trained_manner) {
  const command_folder f(job_with("sample: {tokens: 40, question: Hi there, temperature: 0.01}\n"));
  const auto did = check_exit(0, f.troupe({"train", "job.yaml"}));
  BOOST_TEST(has(did.out, "sample: Hi there\nHello! How are you?\n"), did.out);
  BOOST_TEST(has(did.out, "llama model; chat template of " + fixture + "/model; the answers count\n"), did.out);
  // An epoch is one step: each counts the same tokens.
  const auto expected = nlohmann::json::parse(scratch_folder::read(fixture + "/expected.json"));
  const auto counted = expected["counted"].get<uint64_t>();
  BOOST_TEST(has(did.out, fmt::format("% count, {} so far\n", counted)), did.out);
  BOOST_TEST(has(did.out, fmt::format("tok/s, {} tokens counted\n", 60 * counted)), did.out);
}

// The examples train on a real model; here the fixture's takes its place for two steps.
BOOST_AUTO_TEST_CASE(the_examples_train_and_ask_their_question) {
  const command_folder f;
  const auto model = f.folder / "runs/smollm2";
  fs::create_directories(model);
  fs::copy(fs::path(fixture) / "model", model, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  f.folder.write("runs/smollm2/config.json",
                 replaced(scratch_folder::read(fs::path(fixture) / "model/config.json"),
                          "\"max_position_embeddings\": 128", "\"max_position_embeddings\": 256"));
  fs::create_directories(f.folder / "examples");
  for (const char* file : {"sft.yaml", "lora.yaml", "keeper.jsonl"})
    fs::copy_file(fs::path(places::source_dir) / "examples" / file, f.folder / "examples" / file);
  for (const std::string name : {"sft", "lora"}) {
    const auto did = check_exit(0, f.troupe({"train", "examples/" + name + ".yaml", "--steps", "2", "--set",
                                             "output=" + name, "--export", name + "_exported"}));
    BOOST_TEST(has(did.out, "64 samples, "), did.out);
    BOOST_TEST(has(did.out, "sample: What is a lighthouse for?\n"), did.out);
    BOOST_TEST(fs::exists(f.folder / (name + "_exported") / (name == "sft" ? "config.json" : "adapter_config.json")));
  }
}

// A good row comes first, so that the place of the bad one is found out.
BOOST_AUTO_TEST_CASE(bad_rows_and_templates_are_refused_by_one_sentence_with_file_and_line) {
  const command_folder f(job_with(""));
  const std::string user = R"({"role": "user", "content": "q"})", good = R"({"role": "assistant", "content": "a"})";
  const auto row_of = [](const std::string& messages) { return "{\"messages\": [" + messages + "]}\n"; };
  const std::string good_row = row_of(user + "," + good);
  std::string words;
  for (int i = 0; i < 200; ++i) words += " so";
  f.folder.write("plain.jinja",
                 "{% for m in messages %}{% if m.role == 'critic' %}{{ raise_exception('no critics') }}{% endif %}"
                 "{{ m.role }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}");
  f.folder.write("endless.jinja", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
  f.folder.write("unknown.jinja", "{% include 'other' %}");
  const std::string plain = "data.chat_template=plain.jinja", none = "seed=1";
  struct bad_case {
    std::string row, setting, place, words;
  };
  const std::string critic = R"({"role": "critic", "content": "c"})";
  const std::string long_talk = row_of(R"({"role": "user", "content": ")" + words + R"("},)" + good);
  const std::vector<bad_case> cases = {
      {row_of(user), none,
       "bad.jsonl:2: ", "the conversation has no message of the assistant: wanted an answer to learn from"},
      {"{\"messages\": [\n", none, "bad.jsonl:2: ", "broken JSON"},
      {row_of(user + "," + critic + "," + good), plain, "bad.jsonl:2: ", "no critics"},
      {long_talk, none, "bad.jsonl:2: the sample has ", "(data.sequence_length): raise that number"},
      {long_talk, "data.too_long=cut", "bad.jsonl:2: the sample has ", "and no answer begins before token 128"},
      {good_row, "data.chat_template=endless.jinja", "bad.jsonl:1: ", "rendering takes more than "},
      {good_row, "data.chat_template=unknown.jinja", "unknown.jinja", "include"}};
  for (const auto& [row, setting, place, wanted] : cases) {
    f.folder.write("bad.jsonl", good_row + row);
    const auto did = f.troupe({"train", "job.yaml", "--set", "data.chat=bad.jsonl", "--set", setting});
    BOOST_TEST(did.code != 0, wanted << ": " << did.out);
    BOOST_TEST(has(did.err, place), did.err);
    BOOST_TEST(has(did.err, wanted), did.err);
    BOOST_TEST(sentences_of(did.err) == 1U, did.err);
    BOOST_TEST(!has(did.out, "step 1/"), did.out);
  }
}

BOOST_AUTO_TEST_CASE(a_run_says_what_is_not_trained) {
  const command_folder f(job_with("parameter_groups: [{match: embed_tokens, trainable: false}]\n"));
  const auto did = check_exit(0, f.troupe({"train", "job.yaml", "--steps", "1"}));
  BOOST_TEST(has(did.out, "parameters are trained; the others, such as model.embed_tokens.weight, stay as they are\n"),
             did.out);
}

BOOST_AUTO_TEST_CASE(a_question_that_cannot_be_asked_is_refused_before_the_first_step) {
  const command_folder f(job_with("sample: {tokens: 8, question: 'Why?'}\n"));
  f.folder.write("no_user.jinja",
                 "{% if messages | length == 1 %}{{ raise_exception('one message') }}{% endif %}"
                 "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                 "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}");
  const auto refused = check_exit(2, f.troupe({"train", "job.yaml", "--set", "data.chat_template=no_user.jinja"}));
  BOOST_TEST(has(refused.err, "sample.question: "), refused.err);
  BOOST_TEST(has(refused.err, "one message"), refused.err);
  BOOST_TEST(!has(refused.out, "step 1/"), refused.out);
  std::string words = "Why";
  for (int i = 0; i < 200; ++i) words += " so";
  const auto longer = check_exit(2, f.troupe({"train", "job.yaml", "--set", "sample.question=" + words}));
  BOOST_TEST(has(longer.err, "sample.question: wanted fewer tokens than the 128 of data.sequence_length"), longer.err);
}

BOOST_AUTO_TEST_SUITE_END()
