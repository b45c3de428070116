// Tests `troupe init`: the file that it writes is valid, fits the machine and trains; values from options, users and
// other files are not changed.
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "apps/init/first_job.hpp"
#include "tests/apps/pseudo_terminal.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(init)

using namespace troupe::tests;
namespace apps = troupe::apps;
namespace fs = std::filesystem;

namespace {

/// Returns the effective value of a key of a configuration file.
std::string value_in(const command_folder& at, const std::string& file, const std::string& key) {
  const auto did = check_exit(0, at.troupe({"config", "explain", file, "--json"}));
  const auto parsed = nlohmann::json::parse(did.out);
  for (const auto& v : parsed["values"])
    if (v["key"] == key) return v["value"].get<std::string>();
  return "";
}

void is_good(const command_folder& at, const std::string& file) {
  const auto checked = at.troupe({"config", "check", file, "--strict"});
  BOOST_TEST(checked.code == 0, checked.err << scratch_folder::read(at.folder / file));
  check_exit(0, at.troupe({"plan", file}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_encoder_without_a_mask_token_gets_no_file_that_a_run_would_refuse) {
  const command_folder at;
  const std::string keys =
      R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, )"
      R"("intermediate_size": 24, "max_position_embeddings": 32, "vocab_size": 256)";
  at.folder.write("without/config.json", keys + "}");
  at.folder.write("with/config.json", keys + R"(, "mask_token_id": 255})");
  const auto did =
      check_exit(2, at.troupe({"init", "first.yaml", "--text", "corpus.txt", "--model", "without", "--samples", "4"}));
  BOOST_TEST(did.err.find("data.masking.mask_token_id: wanted the token") != std::string::npos, did.err);
  BOOST_TEST(!fs::exists(at.folder / "first.yaml"));
  check_exit(0, at.troupe({"init", "first.yaml", "--text", "corpus.txt", "--model", "with", "--samples", "4"}));
  is_good(at, "first.yaml");
}

BOOST_AUTO_TEST_CASE(a_text_is_enough_for_a_file_that_is_right_fits_and_trains) {
  const command_folder at;
  check_exit(0, at.troupe({"init", "first.yaml", "--text", "corpus.txt", "--model", "1M", "--samples", "4"}));
  is_good(at, "first.yaml");
  const std::string yaml = scratch_folder::read(at.folder / "first.yaml");
  BOOST_TEST(yaml.starts_with("# yaml-language-server: $schema="));
  BOOST_TEST(has(yaml, "# Optimizer steps to run"), yaml);
  check_exit(0, at.troupe({"train", "first.yaml", "--steps", "2", "--quiet"}));
  const auto again = check_exit(2, at.troupe({"init", "first.yaml", "--text", "corpus.txt"}));
  BOOST_TEST(has(again.err, "--force"), again.err);
}

BOOST_AUTO_TEST_CASE(a_text_whose_name_begins_with_the_sign_of_the_home_folder_is_found_again) {
  const command_folder at;
  fs::copy_file(at.folder / "corpus.txt", at.folder / "~corpus.txt");
  check_exit(0, at.troupe({"init", "first.yaml", "--text", "./~corpus.txt", "--model", "1M", "--samples", "4"}));
  is_good(at, "first.yaml");
  BOOST_TEST(value_in(at, "first.yaml", "data.text").ends_with("/~corpus.txt\""));
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_the_old_file_and_is_named) {
  const command_folder at;
  at.folder.write("first.yaml", "old: true\n");
  const std::vector<std::string> command{"init", "first.yaml", "--force", "--text", "corpus.txt", "--model", "1M"};
  const auto got = at.troupe(command, [] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{16, 16};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  });
  BOOST_TEST(got.code != 0);
  BOOST_TEST(has(got.err, "first.yaml': File too large"), got.err);
  BOOST_TEST(scratch_folder::read(at.folder / "first.yaml") == "old: true\n");
  fs::create_directory(at.folder / "folder");
  const auto folder = check_exit(2, at.troupe({"init", "folder", "--force", "--text", "corpus.txt", "--model", "1M"}));
  BOOST_TEST(has(folder.err, "cannot write 'folder': a regular file was wanted"), folder.err);
  fs::create_symlink("first.yaml", at.folder / "link.yaml");
  BOOST_TEST(at.troupe({"init", "link.yaml", "--force", "--text", "corpus.txt", "--model", "1M"}).code == 0);
  BOOST_TEST(fs::is_symlink(at.folder / "link.yaml"));
  BOOST_TEST(scratch_folder::read(at.folder / "first.yaml") != "old: true\n");
}

BOOST_AUTO_TEST_CASE(options_are_what_the_file_says) {
  const command_folder at;
  check_exit(
      0, at.troupe({"init", "deep/in/job.yaml", "--text", "corpus.txt", "--model", "1M", "--steps", "77", "--samples",
                    "6", "--tokenizer", std::string(troupe::places::source_dir) + "/tests/data/fixtures/gpt2"}));
  const std::string file = "deep/in/job.yaml";
  is_good(at, file);
  BOOST_TEST(value_in(at, file, "steps") == "77");
  BOOST_TEST(value_in(at, file, "train_batch_size") == "6");
  BOOST_TEST(fs::path(nlohmann::json::parse(value_in(at, file, "data.text")).get<std::string>()) ==
             at.folder / "corpus.txt");
}

BOOST_AUTO_TEST_CASE(six_questions_are_asked_on_a_terminal) {
  const command_folder at;
  pseudo_terminal terminal({troupe::places::troupe_binary, "init", "asked.yaml"}, at.folder.path());
  for (const auto& [question, answer] :
       std::vector<std::pair<std::string, std::string>>{{"Model", "1M"},
                                                        {"Text", "corpus.txt"},
                                                        {"Tokenizer", ""},
                                                        {"Steps", "12"},
                                                        {"Samples", ""},
                                                        {"folder on a fast disk", ""}}) {
    BOOST_TEST_REQUIRE(terminal.shows(question), terminal.shown());
    terminal.type(answer + "\n");
  }
  BOOST_TEST(terminal.end() == 0, terminal.shown());
  is_good(at, "asked.yaml");
  BOOST_TEST(value_in(at, "asked.yaml", "steps") == "12");
  BOOST_TEST(value_in(at, "asked.yaml", "train_batch_size") == "16");
}

BOOST_AUTO_TEST_CASE(data_for_a_models_folder_are_asked_for_and_their_form_is_found_out) {
  const command_folder at;
  const fs::path fixture = fs::path(troupe::places::source_dir) / "tests/data/fixtures/chat";
  const std::string model = (fixture / "model").string();
  pseudo_terminal terminal({troupe::places::troupe_binary, "init", "asked.yaml", "--from", model}, at.folder.path());
  for (const auto& [question, answer] : std::vector<std::pair<std::string, std::string>>{
           {"conversations", (fixture / "messages.arrow").string()}, {"Steps", "2"}, {"Samples", "2"}, {"disk", ""}}) {
    BOOST_TEST_REQUIRE(terminal.shows(question), terminal.shown());
    terminal.type(answer + "\n");
  }
  BOOST_TEST(terminal.end() == 0, terminal.shown());
  BOOST_TEST(has(terminal.shown(), "they are read as data.chat"), terminal.shown());
  is_good(at, "asked.yaml");
  BOOST_TEST(value_in(at, "asked.yaml", "data.chat").ends_with("messages.arrow\""));
  const auto untold = check_exit(2, at.troupe({"init", "none.yaml", "--from", model}));
  BOOST_TEST(has(untold.err,
                 "(or conversations as --chat, prompts with answers as --instruct, tokens with labels as "
                 "--labelled), got none"),
             untold.err);
  at.folder.write("prompts.jsonl", "{\"prompt\": \"2 + 2?\", \"completion\": \"4\"}\n");
  const auto tokens = (fixture / "input_ids.npy").string();
  for (const auto& [option, file] :
       {std::pair("--instruct", std::string("prompts.jsonl")), std::pair("--labelled", tokens)}) {
    check_exit(0, at.troupe({"init", "told.yaml", "--from", model, option, file, "--samples", "1", "--force"}));
    is_good(at, "told.yaml");
    check_exit(0, at.troupe({"train", "told.yaml", "--steps", "1", "--quiet", "--fresh"}));
  }
  const auto both = check_exit(
      2, at.troupe({"init", "told.yaml", "--from", model, "--text", "corpus.txt", "--labelled", tokens, "--force"}));
  BOOST_TEST(has(both.err, "--labelled: cannot be combined with --text: leave one of them out"), both.err);
}

BOOST_AUTO_TEST_CASE(an_answer_that_will_not_do_is_said_before_the_next_question) {
  const command_folder at;
  for (const auto& [answers, wanted] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"7B"}, "--model: wanted one of 1M"},
           {{"1M", "nowhere.txt"}, "nowhere.txt, which does not exist"},
           {{"1M", "corpus.txt", "nowhere.model"}, "--tokenizer: "}}) {
    pseudo_terminal terminal({troupe::places::troupe_binary, "init", "asked.yaml"}, at.folder.path());
    for (const auto& answer : answers) {
      BOOST_TEST_REQUIRE(terminal.shows("?"), terminal.shown());
      terminal.type(answer + "\n");
    }
    BOOST_TEST(terminal.end() == 2, terminal.shown());
    BOOST_TEST(has(terminal.shown(), wanted), terminal.shown());
    BOOST_TEST(!has(terminal.shown(), "Steps?"), terminal.shown());
  }
  BOOST_TEST(!fs::exists(at.folder / "asked.yaml"));
}

BOOST_AUTO_TEST_CASE(what_a_deepspeed_file_says_stays) {
  command_folder at;
  at.folder.write("ds_config.json",
                  R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-4, "betas": [0.8, 0.99]}}, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 2}})");
  check_exit(0, at.troupe({"init", "job2.yaml", "--from", "ds_config.json", "--text", "corpus.txt", "--model", "1M"}));
  is_good(at, "job2.yaml");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"train_batch_size", "8"},
                                                        {"train_micro_batch_size_per_gpu", "2"},
                                                        {"gradient_clipping", "0.5"},
                                                        {"optimizer.params.lr", "0.0001"},
                                                        {"optimizer.params.betas", "[0.8, 0.99]"},
                                                        {"bf16.enabled", "true"},
                                                        {"zero_optimization.stage", "2"}})
    BOOST_TEST(value_in(at, "job2.yaml", key) == value, key);
}

BOOST_AUTO_TEST_CASE(checkpoints_of_ours_of_deepspeed_and_of_hugging_face_are_continued) {
  command_folder at;
  BOOST_TEST(
      at.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=2", "--steps", "4", "--export", "hf", "--quiet"})
          .code == 0);
  BOOST_TEST(at.troupe({"checkpoint", "to-deepspeed", "out", "ds", "--quiet"}).code == 0);
  for (const char* from : {"out", "ds", "hf"}) {
    const std::string file = std::string(from) + ".yaml";
    const auto made = at.troupe({"init", file, "--from", from, "--text", "corpus.txt"});
    BOOST_TEST_REQUIRE(made.code == 0, from << ": " << made.err);
    is_good(at, file);
    const auto did = at.troupe({"train", file, "--steps", "6", "--json"});
    BOOST_TEST(did.code == 0, from << ": " << did.err);
    if (std::string(from) != "hf") {
      BOOST_TEST(has(did.out, "\"step\":5"), did.out);
      BOOST_TEST(!has(did.out, "\"step\":4,"), did.out);
      BOOST_TEST(value_in(at, file, "train_batch_size") == "8");
    }
  }
  BOOST_TEST(has(scratch_folder::read(at.folder / "out.yaml"), "n_embd: 64"));
}

BOOST_AUTO_TEST_CASE(a_file_that_train_would_refuse_is_not_written) {
  command_folder at;
  at.folder.write("short.txt", std::string(3000, 'a'));
  at.folder.write("empty.txt", "");
  at.folder.write("other.jsonl", "{\"body\": \"a text\"}\n");
  const auto short_text = check_exit(0, at.troupe({"init", "short.yaml", "--text", "short.txt"}));
  BOOST_TEST(has(short_text.out, "nothing is held out for validation"), short_text.out);
  check_exit(0, at.troupe({"train", "short.yaml", "--steps", "1", "--quiet"}));
  BOOST_TEST(at.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=2", "--steps", "2", "--quiet"}).code ==
             0);
  BOOST_TEST(at.troupe({"checkpoint", "to-fp32", "out", "weights.safetensors", "--quiet"}).code == 0);
  const std::string gpt2 = std::string(troupe::places::source_dir) + "/tests/data/fixtures/gpt2";
  for (const auto& [options, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--text", "empty.txt"}, "empty.txt"},
           {{"--text", "other.jsonl"}, "other.jsonl"},
           {{"--text", "corpus.txt", "--steps", "0"}, "--steps"},
           {{"--from", "out", "--model", "1M"}, "which describes its model"},
           {{"--from", "out", "--tokenizer", gpt2}, "data.tokenizer"},
           {{"--from", "weights.safetensors", "--text", "corpus.txt"}, "does not say its model"}}) {
    std::vector<std::string> command{"init", "refused.yaml"};
    command.insert(command.end(), options.begin(), options.end());
    const auto did = at.troupe(command);
    BOOST_TEST(did.code == 2, why << ": " << did.out << did.err);
    BOOST_TEST(has(did.err, why), did.err);
    BOOST_TEST(!fs::exists(at.folder / "refused.yaml"), why);
  }
  const auto more = check_exit(0, at.troupe({"init", "more.yaml", "--from", "out", "--samples", "32"}));
  BOOST_TEST(value_in(at, "more.yaml", "train_batch_size") == "32");
  is_good(at, "more.yaml");
}

BOOST_AUTO_TEST_CASE(a_run_is_continued_with_another_batch_another_text_and_more_steps_only) {
  command_folder at;
  BOOST_TEST_REQUIRE(
      at.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=2", "--steps", "4", "--quiet"}).code == 0);
  at.folder.write("other.txt", made_up_text(30000));
  check_exit(
      0, at.troupe({"init", "new.yaml", "--from", "out", "--text", "other.txt", "--samples", "16", "--steps", "6"}));
  BOOST_TEST(value_in(at, "new.yaml", "checkpoint.load.changed_batch") == "true");
  BOOST_TEST(value_in(at, "new.yaml", "checkpoint.load.changed_data") == "true");
  const auto did = check_exit(0, at.troupe({"train", "new.yaml", "--json"}));
  BOOST_TEST(has(did.out, "\"step\":5"), did.out);
  BOOST_TEST_REQUIRE(at.troupe({"init", "same.yaml", "--from", "out", "--text", "corpus.txt", "--steps", "6"}).code ==
                     0);
  BOOST_TEST(!has(scratch_folder::read(at.folder / "same.yaml"), "changed_"));
  const auto few = check_exit(2, at.troupe({"init", "few.yaml", "--from", "out", "--steps", "4"}));
  BOOST_TEST(has(few.err, "--steps: wanted more than the 4 that 'out' has done, which the new run continues, got 4"),
             few.err);
  BOOST_TEST(!fs::exists(at.folder / "few.yaml"));
}

BOOST_AUTO_TEST_CASE(keys_of_a_model_that_are_not_known_are_passed_over_by_a_flag_that_the_refusal_names) {
  command_folder at;
  BOOST_TEST_REQUIRE(at.troupe({"train", "job.yaml", "--steps", "1", "--export", "hf", "--quiet"}).code == 0);
  auto keys = nlohmann::json::parse(scratch_folder::read(at.folder / "hf/config.json"));
  keys["n_embed"] = 32;
  keys["a: key"] = true;
  at.folder.write("hf/config.json", keys.dump());
  for (const std::string how : {"--from", "--model"}) {
    BOOST_TEST_INFO_SCOPE(how);
    std::vector<std::string> command{"init", how.substr(2) + ".yaml", how, "hf", "--text", "corpus.txt"};
    const auto refused = at.troupe(command);
    BOOST_TEST(refused.code == 2, refused.out);
    BOOST_TEST(has(refused.err, "not known and may change the model"), refused.err);
    BOOST_TEST(has(refused.err, "--ignore-key n_embed"), refused.err);
    command.insert(command.end(), {"--ignore-key", "n_embed", "--ignore-key", "a: key"});
    check_exit(0, at.troupe(command));
    BOOST_TEST(value_in(at, command[1], "model.ignore_keys") == "[\"n_embed\", \"a: key\"]");
    is_good(at, command[1]);
    command[1] = "refused.yaml";
    command.insert(command.end(), {"--ignore-key", "another"});
    const auto absent = at.troupe(command);
    BOOST_TEST(absent.code == 2, absent.out);
    BOOST_TEST(has(absent.err, "has no key 'another' to ignore; its unknown keys: 'a: key', 'n_embed'"), absent.err);
    BOOST_TEST(has(absent.err, "--ignore-key"), absent.err);
  }
  const auto nothing =
      check_exit(2, at.troupe({"init", "no.yaml", "--model", "1M", "--text", "corpus.txt", "--ignore-key", "n_embed"}));
  BOOST_TEST(has(nothing.err, "--ignore-key: wanted a config.json that has the key"), nothing.err);
}

BOOST_AUTO_TEST_CASE(batch_sizes_that_a_deepspeed_file_leaves_open_are_chosen) {
  command_folder at;
  at.folder.write("auto.json",
                  R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2}})");
  check_exit(0, at.troupe({"init", "auto.yaml", "--from", "auto.json", "--text", "corpus.txt", "--model", "1M"}));
  is_good(at, "auto.yaml");
  BOOST_TEST(value_in(at, "auto.yaml", "train_batch_size") == "16");
}

BOOST_AUTO_TEST_CASE(a_machine_with_less_memory_gets_tiers_that_fit_it_or_is_told) {
  command_folder at;
  apps::first_job_answers a;
  a.model = "124M";
  a.text = (at.folder / "corpus.txt").string();
  a.spill = at.folder / "swap";
  a.file = at.folder / "job.yaml";
  a.samples = 2;
  const uint64_t gib = uint64_t{1} << 30;
  const auto made =
      check_ok(apps::make_first_job(a, {.cores = 2, .memory_bytes = 3 * gib / 2, .processor = "a \"small\" one"}));
  BOOST_TEST(has(made->yaml, "device: nvme"), made->yaml);
  at.folder.write("job.yaml", made->yaml);
  is_good(at, "job.yaml");
  check_failed(apps::make_first_job(a, {.cores = 2, .memory_bytes = gib / 8, .processor = ""}), "no tier fits");
}

BOOST_AUTO_TEST_CASE(answers_that_will_not_do_are_refused_and_nothing_is_written) {
  const command_folder at;
  const auto refused = [&](std::vector<std::string> words, const std::string& says) {
    words.insert(words.begin(), {"init", "no.yaml"});
    const auto did = check_exit(2, at.troupe(words));
    BOOST_TEST(has(did.err, says), did.err);
    BOOST_TEST(!fs::exists(at.folder / "no.yaml"));
  };
  refused({}, "--text: wanted a file or folder of text");
  refused({"--text", "nowhere"}, "which does not exist");
  refused({"--text", "corpus.txt", "--model", "7B"}, "wanted one of 1M, 10M");
  refused({"--text", "corpus.txt", "--tokenizer", "corpus.txt"}, "--tokenizer");
  refused({"--text", "corpus.txt", "--from", "corpus.txt"},
          "--from: wanted a ds_config.json, a file of Accelerate's or a checkpoint");
  refused({"--text", "corpus.txt", "--steps", "-1"}, "--steps");
}

BOOST_AUTO_TEST_CASE(a_trained_models_tokenizer_is_used_with_a_rate_and_a_length_for_tuning) {
  command_folder at;
  at.folder.write("words.yaml",
                  "model: {model_type: gpt2, n_layer: 1, n_embd: 16, n_head: 2, n_positions: 2048, vocab_size: 532}\n"
                  "data: {text: corpus.txt, tokenizer: bytes-as-ids, sequence_length: 16}\nsteps: 1\n"
                  "train_micro_batch_size_per_gpu: 1\noutput: words_out\n");
  const auto trained = check_exit(0, at.troupe({"train", "words.yaml", "--export", "words", "--quiet"}));
  const auto begin = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"init", "tune.yaml", "--force", "--text", "corpus.txt", "--from", "words"});
    return at.troupe(more);
  };
  // Without a tokenizer the data are refused, unless `--tokenizer bytes-as-ids` requests bytes as tokens.
  const auto none = check_exit(2, begin({}));
  BOOST_TEST(has(none.err, "the model's vocabulary has 532 words, which are not bytes"), none.err);
  BOOST_TEST(begin({"--tokenizer", "bytes"}).code == 2);
  BOOST_TEST(begin({"--tokenizer", "bytes-as-ids"}).code == 0);
  BOOST_TEST(value_in(at, "tune.yaml", "data.tokenizer") == "bytes-as-ids");
  const fs::path gpt2 = std::string(troupe::places::source_dir) + "/tests/data/fixtures/gpt2";
  for (const char* file : {"vocab.json", "merges.txt"}) fs::copy_file(gpt2 / file, at.folder / "words" / file);
  check_exit(0, begin({"--samples", "4"}));
  is_good(at, "tune.yaml");
  BOOST_TEST(has(value_in(at, "tune.yaml", "data.tokenizer"), "words"));
  BOOST_TEST(value_in(at, "tune.yaml", "optimizer.params.lr") == "2e-05");
  BOOST_TEST(value_in(at, "tune.yaml", "data.sequence_length") == "1024");
  // If a description of the tokens exists, it is compared with the model's tokenizer.
  const auto of_tokens = [&](const fs::path& tokenizer) {
    check_exit(0, at.troupe({"data", "tokenize", "corpus.txt", "--tokenizer", tokenizer.string(), "--output",
                             "tokens.bin", "--quiet"}));
    return at.troupe({"init", "tune.yaml", "--force", "--text", "tokens.bin", "--from", "words", "--samples", "4"});
  };
  check_exit(0, of_tokens(gpt2));
  BOOST_TEST(has(value_in(at, "tune.yaml", "data.tokenizer"), "words"));
  const auto others = check_exit(2, of_tokens(gpt2.parent_path() / "unigram.model"));
  BOOST_TEST(has(others.err, "tokens.bin' holds tokens of sentencepiece"), others.err);
  BOOST_TEST(has(others.err, "but the requested tokenizer is another gpt2 (532 tokens)"), others.err);
  // Weights in a file of torch.save count as trained, as those in safetensors do.
  BOOST_TEST(at.troupe({"checkpoint", "to-fp32", "words", "words/pytorch_model.bin", "--quiet"}).code == 0);
  fs::remove(at.folder / "words/model.safetensors");
  check_exit(0, begin({"--samples", "4"}));
  BOOST_TEST(has(value_in(at, "tune.yaml", "model.path"), "/words"));
  BOOST_TEST(value_in(at, "tune.yaml", "optimizer.params.lr") == "2e-05");
  BOOST_TEST(value_in(at, "tune.yaml", "data.sequence_length") == "1024");
  // A tokenizer that cannot be read makes the command fail.
  at.folder.write("words/tokenizer.json", R"({"pre_tokenizer": {"type": "Whitespace"}})");
  fs::remove(at.folder / "tune.yaml");
  const auto other = check_exit(2, begin({}));
  BOOST_TEST(has(other.err, "the model's tokenizer cannot be read: "), other.err);
  BOOST_TEST(has(other.err,
                 "pre_tokenizer: wanted the way in which GPT-2, SmolLM, Llama 3, Qwen2, GPT-4o or Mistral cut words"),
             other.err);
  const auto unknown = check_exit(2, of_tokens(gpt2));
  BOOST_TEST(has(unknown.err, "the tokens of tokens.bin cannot be compared with it"), unknown.err);
  BOOST_TEST(!fs::exists(at.folder / "tune.yaml"));
}

BOOST_AUTO_TEST_CASE(bytes_are_fed_to_a_larger_vocabulary_only_where_the_key_says_so) {
  command_folder at;
  at.folder.write("wide.yaml",
                  "model: {model_type: gpt2, n_layer: 1, n_embd: 16, n_head: 2, n_positions: 16, vocab_size: 300}\n"
                  "data: {text: corpus.txt}\nsteps: 1\ntrain_micro_batch_size_per_gpu: 1\noutput: wide_out\n");
  for (const char* word : {"", "bytes"}) {
    BOOST_TEST_INFO_SCOPE(word);
    std::vector<std::string> command{"train", "wide.yaml", "--quiet"};
    if (*word != '\0') command.insert(command.end(), {"--set", std::string("data.tokenizer=") + word});
    const auto did = check_exit(2, at.troupe(command));
    BOOST_TEST(
        has(did.err, "data.tokenizer: the text would be read as bytes, but the model's vocabulary has 300 words"),
        did.err);
  }
  BOOST_TEST(at.troupe({"train", "wide.yaml", "--quiet", "--set", "data.tokenizer=bytes-as-ids"}).code == 0);
}

BOOST_AUTO_TEST_CASE(an_answer_of_accelerate_is_a_source_too) {
  command_folder at;
  at.folder.write("fsdp.yaml",
                  "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n"
                  "  fsdp_reshard_after_forward: false\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 3\n");
  check_exit(0, at.troupe({"init", "job3.yaml", "--from", "fsdp.yaml", "--text", "corpus.txt", "--model", "1M"}));
  is_good(at, "job3.yaml");
  BOOST_TEST(value_in(at, "job3.yaml", "zero_optimization.stage") == "2");
  // The user's answer requests three ranks, whatever the number of cores of this machine.
  BOOST_TEST(value_in(at, "job3.yaml", "parallel.data") == "3");
  BOOST_TEST(value_in(at, "job3.yaml", "train_batch_size") == "18");
  BOOST_TEST(value_in(at, "job3.yaml", "bf16.enabled") == "true");
}

BOOST_AUTO_TEST_SUITE_END()
