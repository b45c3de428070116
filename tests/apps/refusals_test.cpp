// Tests every refusal at the command line: one clear sentence on stderr, an exit code other than 0, and no files left.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(refusals)

using namespace troupe::tests;

namespace {

const std::string model_line = smallest.substr(0, smallest.find('\n'));
std::string with_model(const std::string& line) { return replaced(smallest, model_line, line); }

std::string little_endian(uint64_t n) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(n >> (8 * i) & 0xFF);
  return out;
}

const std::string config_json =
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 2, "n_positions": 64, "vocab_size": 256})";

struct refusal {
  std::string name;
  std::string yaml;
  std::string wanted;  // text that the message must contain
  int code = 2;        // expected exit code; 1: a limit was exceeded, 2: the input is wrong
  std::vector<std::pair<std::string, std::string>> files = {};  // names and contents of additional files in the folder
};

std::string deep(int levels) { return std::string(size_t(levels), '[') + std::string(size_t(levels), ']'); }

std::string alias_bomb() {
  std::string out = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = fmt::format("*a{}", i - 1), n = fmt::to_string(i);
    out += "a" + n + ": &a" + n + " [";
    for (int k = 0; k < 10; ++k) out += (k > 0 ? ", " : "") + before;
    out += "]\n";
  }
  return out;
}

// Returns the stored and deflated bytes of `megabytes` MB of zeros, as the system's gzip writes them.
std::string zeros_gz(const command_folder& f, int megabytes) {
  const std::string command = fmt::format("head -c {}M /dev/zero | gzip -1 > zeros.gz", megabytes);
  run({"/bin/sh", "-c", command}, f.folder.path());
  std::string out = scratch_folder::read(f.folder / "zeros.gz");
  std::filesystem::remove(f.folder / "zeros.gz");
  return out;
}

std::vector<refusal> all_refusals() {
  const std::string weights = with_model("model: {path: hf}");
  const auto folder = [](std::string file, std::string content) {
    return std::vector<std::pair<std::string, std::string>>{{"hf/config.json", config_json},
                                                            {"hf/" + std::move(file), std::move(content)}};
  };
  return {
      {"empty YAML", "", "job.yaml:1:1: error: wanted a mapping"},
      {"broken YAML", "model: {a\nb: ]\n", "job.yaml:"},
      {"unknown key", smallest + "stepz: 3\n",
       "job.yaml:10:1: error: stepz: unknown key; the nearest known one is steps"},
      {"wrong type", replaced(smallest, "steps: 6", "steps: six"), "job.yaml:5:8: error: steps: wanted an integer"},
      {"batch triangle", smallest + "gradient_accumulation_steps: 2\ntrain_batch_size: 5\n", "train_batch_size"},
      {"too many ranks", replaced(smallest, "data: 2}", "data: 500}"), "parallel.data: 500 ranks"},
      {"short text", replaced(smallest, "corpus.txt", "short.txt"), "one sequence", 2, {{"short.txt", "Too short."}}},
      {"text key of plain text", replaced(smallest, "corpus.txt", "corpus.txt, text_key: body"),
       "data.text_key would do nothing: it is for JSON lines"},
      {"text key of a plain source",
       replaced(smallest, "{text: corpus.txt}", "{sources: [{text: corpus.txt, text_key: body}]}"),
       "data.sources[0].text_key would do nothing"},
      {"text key of a plain validation set",
       replaced(smallest, "corpus.txt}", "corpus.txt, validation: {held: {text: corpus.txt, text_key: body}}}"),
       "data.validation.held.text_key would do nothing"},
      {"validation set shorter than a sequence",
       replaced(smallest, "corpus.txt}", "corpus.txt, validation: {held: short.txt}}"),
       "short.txt: the validation text has",
       2,
       {{"short.txt", "Too short."}}},
      {"missing text", replaced(smallest, "corpus.txt", "missing.txt"), "missing.txt"},
      {"token outside", replaced(smallest, "vocab_size: 256", "vocab_size: 70"), "outside the vocabulary of 70"},
      {"alias bomb", alias_bomb() + smallest, "alias"},
      {"nesting", "model: " + deep(100) + "\n", "64"},
      {"too large", "# " + std::string((16 << 20) + 1, 'x') + "\n" + smallest, "16"},
      {"truncated safetensors", weights, "model.safetensors", 2, folder("model.safetensors", "abc")},
      {"oversized header", weights, "model.safetensors", 1,
       folder("model.safetensors", little_endian(uint64_t{1} << 40) + "{}")},
      {"overlapping offsets", weights, "model.safetensors", 2,
       folder("model.safetensors", little_endian(124) + R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)" +
                                       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})" +
                                       std::string(124 - 106, ' ') + std::string(12, '\0'))},
      {"offsets beyond the file", weights, "model.safetensors", 2,
       folder("model.safetensors", little_endian(64) + R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})" +
                                       std::string(64 - 54, ' ') + "1234")},
      {"index outside its folder", weights, "not a file of its folder", 2,
       folder("model.safetensors.index.json",
              R"({"metadata":{},"weight_map":{"transformer.wte.weight":"../../x.safetensors"}})")},
      {"unknown family",
       with_model("model: {path: hf}"),
       "mamba",
       2,
       {{"hf/config.json", R"({"model_type": "mamba"})"}}},
      {"GGUF file as a folder", with_model("model: {path: x.gguf}"), "got the GGUF file '", 2, {{"x.gguf", "GGUF\3"}}},
      {"unknown family inline", with_model("model: {model_type: mamba}"), "mamba"},
      {"sequence beyond positions",
       smallest.substr(0, 0) + replaced(smallest, "corpus.txt", "corpus.txt, sequence_length: 65"),
       "64 positions, got 65"},
      {"heads do not divide", replaced(smallest, "n_head: 4", "n_head: 5"), "n_head"},
      {"budget", smallest + "cluster: {host_memory_budget: 100000}\n", "its share of cluster.host_memory_budget is ",
       1},
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_is_one_sentence_and_leaves_nothing) {
  for (const auto& r : all_refusals()) BOOST_TEST_CONTEXT(r.name) {
      const command_folder f(r.yaml);
      for (const auto& [name, content] : r.files) f.folder.write(name, content);
      const auto got = f.troupe({"train", "job.yaml"});
      BOOST_TEST(got.code == r.code, got.err);
      BOOST_TEST(got.out.empty(), got.out);
      BOOST_TEST(sentences_of(got.err) == 1U, got.err);
      BOOST_TEST(has(got.err, "error: "), got.err);
      BOOST_TEST(has(got.err, r.wanted), got.err);
      BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
    }
}

BOOST_AUTO_TEST_CASE(gzip_beyond_its_limit_is_refused) {
  const command_folder f(replaced(smallest, "corpus.txt", "zeros.txt.gz, max_bytes: 1048576"));
  f.folder.write("zeros.txt.gz", zeros_gz(f, 16));
  const auto got = check_exit(1, f.troupe({"train", "job.yaml"}));
  BOOST_TEST(sentences_of(got.err) == 1U, got.err);
  BOOST_TEST(has(got.err, "max_bytes"), got.err);
}

BOOST_AUTO_TEST_CASE(duplicate_keys_in_json_are_refused) {
  const command_folder f;
  f.folder.write("job.json", "{\"steps\": 1,\n \"steps\": 2}");
  const auto got = check_exit(2, f.troupe({"train", "job.json"}));
  BOOST_TEST(has(got.err, "job.json:2:2: error: steps: given twice"), got.err);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_is_refused) {
  const command_folder f;
  for (const char* name : {"nowhere.yaml", "/"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto got = check_exit(2, f.troupe({"train", name}));
    BOOST_TEST(sentences_of(got.err) == 1U, got.err);
    BOOST_TEST(has(got.err, name), got.err);
  }
}

BOOST_AUTO_TEST_CASE(all_errors_of_a_file_come_at_once) {
  const command_folder f(replaced(replaced(smallest, "steps: 6", "steps: 0"), "stage: 3", "stage: 7"));
  const auto got = check_exit(2, f.troupe({"train", "job.yaml"}));
  BOOST_TEST(sentences_of(got.err) == 2U, got.err);
  BOOST_TEST(has(got.err, "job.yaml:5:8: error: steps"), got.err);
  BOOST_TEST(has(got.err, "job.yaml:8:28: error: zero_optimization.stage"), got.err);
}

BOOST_AUTO_TEST_CASE(an_output_folder_that_cannot_be_made_is_an_error) {
  const command_folder f;
  f.folder.write("in the way", "a file");
  const auto got = check_exit(1, f.troupe({"train", "job.yaml", "--set", "output=in the way/out"}));
  BOOST_TEST(sentences_of(got.err) == 1U, got.err);
  BOOST_TEST(has(got.err, "in the way"), got.err);
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_a_number_ends_the_run_with_its_place) {
  const command_folder f(replaced(smallest, "1.0e-3", "1.0e+30"));
  const auto got = check_exit(1, f.troupe({"train", "job.yaml", "--quiet"}));
  BOOST_TEST(sentences_of(got.err) == 1U, got.err);
  BOOST_TEST(has(got.err, "first seen in "), got.err);
}

BOOST_AUTO_TEST_CASE(words_that_mean_nothing_are_refused_by_either_program_with_2_and_the_usage) {
  const command_folder f;
  for (const auto& arguments : std::vector<std::vector<std::string>>{{},
                                                                     {"nonsense"},
                                                                     {"config"},
                                                                     {"config", "check"},
                                                                     {"doctor", "--nonsense"},
                                                                     {"checkpoint", "to-fp32", "one"},
                                                                     {"train"},
                                                                     {"train", "job.yaml", "--nonsense"},
                                                                     {"train", "job.yaml", "--steps", "many"},
                                                                     {"train", "job.yaml", "--tag", "x"},
                                                                     {"plan"},
                                                                     {"plan", "job.yaml", "--format", "tables"},
                                                                     {"plan", "job.yaml", "--memory", "8GiB"},
                                                                     {"plan", "job.yaml", "--disk-read", "-1"}}) {
    const auto r = f.troupe(arguments);
    BOOST_TEST(r.code == 2, (arguments.empty() ? "" : arguments.back()) << " ended with " << r.code);
    BOOST_TEST(r.err != "");
  }
  // A flag that leaves another one without effect is refused, and both are named.
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"train", "job.yaml", "--load-module-only", "--no-load-optimizer-states"},
           {"train", "job.yaml", "--load-module-only", "--no-load-lr-scheduler-states"},
           {"train", "job.yaml", "--json", "--verbose"},
           {"compress", "--tag=x", "--fallback-to-previous"},
           {"checkpoint", "verify", "--tag=x", "--fallback-to-previous"}}) {
    auto all = arguments;
    if (all.front() != "train") all.insert(all.end() - 2, {"in", "out"});
    if (all.front() == "checkpoint") all.erase(std::ranges::find(all, "out"));
    const auto r = check_exit(2, f.troupe(all));
    BOOST_TEST(has(r.err, " excludes "), r.err);
    for (const auto& flag : {arguments[arguments.size() - 2], arguments.back()})
      BOOST_TEST(has(r.err, flag.substr(0, flag.find('='))), r.err);
  }
  const auto stopped = check_exit(2, f.troupe({"plan", "job.yaml", "--disk-read", "0"}));
  BOOST_TEST(has(stopped.err, "--disk-read: wanted a number above 0, got 0"), stopped.err);
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--help"}, {"--version"}, {"train", "--help"}, {"plan", "--help"}, {"checkpoint", "verify", "--help"}})
    BOOST_TEST(f.troupe(arguments).code == 0, arguments.back());
}

BOOST_AUTO_TEST_CASE(integers_that_would_wrap_around_are_refused_in_words) {
  const command_folder f;
  const std::vector<std::vector<std::string>> options = {{"train", "job.yaml", "--steps"},
                                                         {"plan", "job.yaml", "--rank"},
                                                         {"plan", "job.yaml", "--fit", "--memory"},
                                                         {"data", "inspect", "a.bin", "--tokens"},
                                                         {"io", "bench", ".", "--size"},
                                                         {"io", "bench", ".", "--block-size"},
                                                         {"io", "bench", ".", "--queue-depth"},
                                                         {"io", "bench", ".", "--threads"},
                                                         {"io", "bench", ".", "--loops"},
                                                         {"io", "tune", ".", "--final-loops"},
                                                         {"checkpoint", "to-deepspeed", "a", "b", "--stage"},
                                                         {"checkpoint", "to-deepspeed", "a", "b", "--ranks"},
                                                         {"checkpoint", "reshape", "a", "b", "--tp"},
                                                         {"checkpoint", "reshape", "a", "b", "--pp"},
                                                         {"checkpoint", "reshape", "a", "b", "--dp"},
                                                         {"checkpoint", "reshape", "a", "b", "--heads"}};
  for (auto words : options)
    for (const std::string wrong : {"-1", "99999999999999999999999"}) {
      BOOST_TEST_INFO_SCOPE(wrong);
      const std::string name = words.back();
      words.push_back(wrong);
      const auto got = f.troupe(words);
      words.pop_back();
      BOOST_TEST(got.code != 0, name);
      BOOST_TEST(has(got.err, name + ": wanted an integer of at "), got.err);
      BOOST_TEST(has(got.err, ", got " + wrong), got.err);
    }
  BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
}

// CLI11 alone would read 010 as 8 and 0x10 as 16.
BOOST_AUTO_TEST_CASE(integers_of_options_are_read_as_those_of_files_are) {
  const command_folder f;
  for (const std::string wrong : {"0x10", "0b11", "1_000", "1.5", "six"}) {
    BOOST_TEST_INFO_SCOPE(wrong);
    const auto got = check_exit(2, f.troupe({"train", "job.yaml", "--steps", wrong}));
    BOOST_TEST(has(got.err, "--steps: wanted an integer of at least 0, got " + wrong), got.err);
  }
  for (const std::string ten : {"010", "1e1", "10.0"}) {
    BOOST_TEST_INFO_SCOPE(ten);
    const auto got = f.troupe({"plan", "job.yaml", "--rank", ten});
    BOOST_TEST(has(got.err, "10"), got.err);
    BOOST_TEST(got.err == f.troupe({"plan", "job.yaml", "--rank", "10"}).err);
  }
  const auto trained = check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--steps", "010"}));
  BOOST_TEST(has(trained.out, "done after 10 steps"), trained.out);
  const auto units = check_exit(0, f.troupe({"plan", "job.yaml", "--fit", "--memory", "010GiB"}));
  BOOST_TEST(units.out == f.troupe({"plan", "job.yaml", "--fit", "--memory", "10GiB"}).out);
  BOOST_TEST(f.troupe({"schedule", "1f1b", "--transfer", "0x1"}).code == 2);
}

BOOST_AUTO_TEST_CASE(certificates_of_no_days_are_refused_and_those_of_a_replaced_authority_are_named) {
  const command_folder f;
  const auto zero = check_exit(2, f.troupe({"cert", "init", "certs", "--days", "0"}));
  BOOST_TEST(has(zero.err, "days of a certificate: wanted 1 to 3650, got 0"), zero.err);
  BOOST_TEST(f.troupe({"cert", "init", "certs"}).err == "");
  BOOST_TEST(f.troupe({"cert", "issue", "certs", "b", "a"}).code == 0);
  const auto again = check_exit(0, f.troupe({"cert", "init", "certs", "--force"}));
  BOOST_TEST(has(again.err, "troupe cert renew certs a b makes new ones"), again.err);
  BOOST_TEST(f.troupe({"cert", "renew", "certs", "a", "b"}).code == 0);
}

BOOST_AUTO_TEST_CASE(numbers_that_are_not_finite_are_refused_in_words) {
  const command_folder f;
  for (const std::string wrong : {"nan", "inf"})
    for (const std::vector<std::string>& words : {std::vector<std::string>{"plan", "job.yaml", "--disk-read", wrong},
                                                  {"plan", "job.yaml", "--disk-write", wrong},
                                                  {"schedule", "1f1b", "--transfer", wrong},
                                                  {"schedule", "1f1b", "--costs", wrong + ",1,1"},
                                                  {"checkpoint", "diff", "a", "b", "--tolerance", wrong}}) {
      BOOST_TEST_INFO_SCOPE(wrong);
      const auto got = f.troupe(words);
      BOOST_TEST(got.code == 2, words[2]);
      BOOST_TEST(has(got.err, ": wanted a finite number, got " + wrong), got.err);
    }
}

BOOST_AUTO_TEST_CASE(check_refuses_what_train_refuses_and_all_of_it_at_once) {
  const std::string text = replaced(replaced(smallest, "n_head: 4", "n_head: 3"), "seed: 1", "seed: one");
  const command_folder f(replaced(text, "corpus.txt", "corpus.txt, sequence_length: 65"));
  const auto checked = f.troupe({"config", "check", "job.yaml"}), trained = f.troupe({"train", "job.yaml"});
  BOOST_TEST(checked.code == 2);
  BOOST_TEST(trained.code == 2);
  BOOST_TEST(checked.err == trained.err);
  BOOST_TEST(checked.err ==
             "job.yaml:1:59: error: model.n_head: wanted a divisor of n_embd 64, got 3\n"
             "job.yaml:4:7: error: seed: wanted an integer of at least 0, got one\n");
  const command_folder longer(replaced(smallest, "corpus.txt", "corpus.txt, sequence_length: 65"));
  BOOST_TEST(longer.troupe({"config", "check", "job.yaml"}).err ==
             "job.yaml:2:43: error: data.sequence_length: wanted at most the model's 64 positions, got 65\n");
  const command_folder folder(with_model("model: {path: hf}"));
  folder.folder.write("hf/config.json", replaced(config_json, "\"n_head\": 2", "\"n_head\": 5"));
  const auto of_folder = check_exit(2, folder.troupe({"config", "check", "job.yaml"}));
  BOOST_TEST(has(of_folder.err, "error: model.path: '"), of_folder.err);
  BOOST_TEST(has(of_folder.err, "model key 'n_head': wanted a divisor of n_embd 32, got 5"), of_folder.err);
}

BOOST_AUTO_TEST_CASE(absurd_batches_are_refused_with_the_size_they_would_need) {
  const struct {
    const char *set, *wanted;
    // Exit code of `config check`: 0, with a warning, if another machine may have the memory for the batch.
    int checked;
  } cases[] = {
      {"train_micro_batch_size_per_gpu=1000000000000", "1000000000000 samples of 64 tokens on 2 ranks, which need ", 2},
      {"train_micro_batch_size_per_gpu=500000000", "500000000 samples of 64 tokens on 2 ranks, which need ", 0},
      {"gradient_accumulation_steps=1000000000000", "1000000000000 micro-batches a step, with plans of ", 2}};
  for (const auto& c : cases) {
    const command_folder f;
    const auto trained = check_exit(2, f.troupe({"train", "job.yaml", "--set", c.set}));
    BOOST_TEST(has(trained.err, c.wanted), trained.err);
    BOOST_TEST(sentences_of(trained.err) == 1U, trained.err);
    const auto checked = f.troupe({"config", "check", "job.yaml", "--set", c.set});
    BOOST_TEST(checked.code == c.checked, checked.err);
    BOOST_TEST(has(checked.err, c.wanted), checked.err);
    BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
  }
  const command_folder f;
  const auto planned =
      check_exit(2, f.troupe({"plan", "job.yaml", "--set", "gradient_accumulation_steps=1000000000000"}));
  BOOST_TEST(has(planned.err, "with plans of "), planned.err);
}

BOOST_AUTO_TEST_CASE(a_file_that_an_agent_hands_over_is_named_as_the_user_knows_it) {
  const command_folder f;
  std::ofstream(f.folder / "10") << smallest << "nonsense: 3\nseed: x\n";
  const auto path = (f.folder / "10").string();
  const auto named = check_exit(2, run({"/usr/bin/env", "TROUPE_FILE=" + path + ":my job.yaml",
                                        troupe::places::troupe_binary, "config", "check", path},
                                       f.folder.path()));
  BOOST_TEST(named.err.find("my job.yaml: error: seed: ") != std::string::npos, named.err);
  BOOST_TEST(named.err.find(path) == std::string::npos, named.err);
  const auto other = run(
      {"/usr/bin/env", "TROUPE_FILE=/proc/1/fd/10:my job.yaml", troupe::places::troupe_binary, "config", "check", path},
      f.folder.path());
  BOOST_TEST(other.err.find(path + ":") != std::string::npos, other.err);
}

BOOST_AUTO_TEST_SUITE_END()
