// Tests `troupe data tokenize`, `troupe data inspect`, and training on their output, as a user sees it.
#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(data)

using namespace troupe::tests;

namespace {

const std::string gpt2 = std::string(troupe::places::source_dir) + "/tests/data/fixtures/gpt2";
const std::string pieces = std::string(troupe::places::source_dir) + "/tests/data/fixtures/unigram.model";

/// Returns ten documents made of the corpus's words, one JSON object on each line.
std::string json_lines(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < 10; ++i)
    out += nlohmann::json{{"body", text.substr(i * text.size() / 10, text.size() / 10)}}.dump() + "\n";
  return out;
}

struct tokens_folder : command_folder {
  explicit tokens_folder(const std::string& yaml = smallest) : command_folder(yaml) {
    folder.write("lines.jsonl", json_lines(made_up_text(20000)));
  }
  [[nodiscard]] size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
  }
};

std::string with_data(const std::string& data) {
  return replaced(replaced(smallest, "{text: corpus.txt}", data), "vocab_size: 256", "vocab_size: 560") +
         "sample: {tokens: 8, prompt: \"The \"}\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_are_written_with_a_description_and_shown) {
  const tokens_folder f;
  const auto made = check_exit(
      0, f.troupe({"data", "tokenize", "lines.jsonl", "--tokenizer", gpt2, "--output", "t.bin", "--text-key", "body"}));
  BOOST_TEST(has(made.out, "tokens of 10 documents, uint16"), made.out);
  const auto shown = check_exit(0, f.troupe({"data", "inspect", "t.bin", "--tokens", "20"}));
  BOOST_TEST(has(shown.out, "10 documents\nvocabulary of 532: gpt2"), shown.out);
  BOOST_TEST(has(shown.out, made_up_text(20000).substr(0, 10)), shown.out);
  std::filesystem::remove(f.folder / "t.bin.json");
  BOOST_TEST(has(f.troupe({"data", "inspect", "t.bin"}).out, "no t.bin.json beside it"));

  const auto one = f.troupe({"data", "tokenize", "corpus.txt", "--tokenizer", "bytes", "--output", "one.bin"});
  BOOST_TEST(has(one.out, " tokens of 1 document, "), one.out + one.err);
  // An option is refused if the file's description determines its value, or if no decoding uses it.
  for (const auto& [file, option, value, wanted] :
       {std::tuple("one.bin", "--dtype", "uint32",
                   "--dtype would do nothing here: it is for a file without one.bin.json"),
        std::tuple("t.bin", "--tokens", "3",
                   "--tokens would do nothing here: it is for a file whose tokenizer is known")}) {
    const auto refused = check_exit(2, f.troupe({"data", "inspect", file, option, value}));
    BOOST_TEST(has(refused.err, wanted), refused.err);
  }
  BOOST_TEST(f.troupe({"data", "inspect", "t.bin", "--dtype", "uint16", "--tokenizer", gpt2, "--tokens", "3"}).code ==
             0);
  const auto bytes = f.troupe({"data", "inspect", "one.bin"});
  BOOST_TEST(has(bytes.out, "\n1 document\nvocabulary of 256: bytes, end of text none, digest "), bytes.out);
  BOOST_TEST(
      f.troupe({"data", "tokenize", "corpus.txt", "--tokenizer", "bytes", "--output", "b.bin", "--quiet"}).out.empty());
}

BOOST_AUTO_TEST_CASE(an_indexed_pair_is_shown_with_its_type_and_documents) {
  const tokens_folder f;
  const auto fixtures = std::filesystem::path(troupe::places::source_dir) / "tests/data/fixtures/sources";
  for (const char* name : {"megatron_int64.bin", "megatron_int64.idx"})
    std::filesystem::copy_file(fixtures / name, f.folder / name);
  const auto shown = check_exit(0, f.troupe({"data", "inspect", "megatron_int64.bin"}));
  BOOST_TEST(has(shown.out, " tokens, int64, largest "), shown.out);
  BOOST_TEST(has(shown.out, "\n5 documents by megatron_int64.idx, of an unknown vocabulary\n"), shown.out);
  const auto refused = check_exit(2, f.troupe({"data", "inspect", "megatron_int64.bin", "--dtype", "uint32"}));
  BOOST_TEST(has(refused.err, "it is for a file without megatron_int64.idx"), refused.err);
}

BOOST_AUTO_TEST_CASE(what_was_read_of_each_input_is_told_once) {
  const tokens_folder f;
  f.folder.write("repo/README.md", "---\nlicense: mit\n---\n# A data set\n");
  f.folder.write("repo/data/train.json", "[{\"text\": \"first\"}, {\"text\": null}, {\"text\": \"second\"}]");
  f.folder.write("repo/data/test.json", "[{\"text\": \"held out\"}]");
  const auto made =
      check_exit(0, f.troupe({"data", "tokenize", "repo", "corpus.txt", "--tokenizer", "bytes", "--output", "t.bin"}));
  BOOST_TEST(made.out.starts_with(
                 "'repo': 2 documents, 11 tokens, 55 bytes in data/train.json; there is no end-of-text token between "
                 "the documents; left out: README.md (card or licence), data/test.json (split test)\n'corpus.txt': 1 "
                 "document, 20000 tokens, 20000 bytes in corpus.txt\nt.bin: 20011 tokens of 3 documents, "),
             made.out);
  const auto run = check_exit(0, f.troupe({"train", "job.yaml", "--steps", "1"}));
  BOOST_TEST(has(run.out, "corpus.txt': 1 document, 20000 tokens, 20000 bytes in corpus.txt\n"), run.out);
}

BOOST_AUTO_TEST_CASE(a_run_whose_text_grew_is_refused_until_that_is_asked_for) {
  const tokens_folder f(smallest + "checkpoint: {every_steps: 3}\n");
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml"}).code == 0);
  f.folder.write("corpus.txt", made_up_text(21000));
  const auto refused = check_exit(1, f.troupe({"train", "job.yaml", "--steps", "9"}));
  BOOST_TEST(sentences_of(refused.err) == 1U, refused.err);
  BOOST_TEST(
      has(refused.err,
          "corpus.txt' has 21000 tokens, had 20000; checkpoint.load.changed_data: true (--changed-data) continues at "
          "sample 48 of the present data, in their new order; --fresh begins anew and sets it aside\n"),
      refused.err);
  const auto taken = check_exit(0, f.troupe({"train", "job.yaml", "--steps", "9", "--changed-data"}));
  BOOST_TEST(has(taken.err, "has 21000 tokens, had 20000: the run continues at sample 48 of the data"), taken.err);
  check_exit(0, f.troupe({"train", "job.yaml", "--steps", "12"}));
}

BOOST_AUTO_TEST_CASE(a_working_directory_that_is_gone_is_refused_in_one_sentence) {
  const tokens_folder f;
  const auto gone = [&](const std::string& command) {
    return run({"/bin/sh", "-c", "mkdir gone && cd gone && rmdir ../gone && exec " + command}, f.folder.path());
  };
  const std::string corpus = (f.folder / "corpus.txt").string(), job = (f.folder / "job.yaml").string();
  for (const std::string& command :
       {std::string(troupe::places::troupe_binary) + " data tokenize " + corpus + " --tokenizer v --output t.bin",
        std::string(troupe::places::troupe_binary) + " train " + job + " --set output=out",
        std::string(troupe::places::troupe_binary) + " plan " + job + " --measure"}) {
    BOOST_TEST_INFO_SCOPE(command);
    const auto r = check_exit(1, gone(command));
    BOOST_TEST(r.err == "troupe: error: the working directory does not exist any more: change to one that exists\n",
               r.err);
  }
}

BOOST_AUTO_TEST_CASE(input_that_cannot_be_tokenized_is_refused_in_one_sentence_and_leaves_nothing) {
  const tokens_folder f;
  f.folder.write("sub/vocab.json", "{\"a\": 0");
  f.folder.write("sub/merges.txt", "");
  f.folder.write("tokens.bin", "ab");
  f.folder.write("described.bin.json/notes.txt", "");
  const size_t before = f.files();
  struct refusal {
    std::vector<std::string> arguments;
    std::string wanted;
  };
  for (const auto& [arguments, wanted] : std::vector<refusal>{
           {{"lines.jsonl", "--tokenizer", gpt2, "--output", "t.bin"}, "lines.jsonl:1: no key 'text'"},
           {{"corpus.txt", "--tokenizer", "sub", "--output", "t.bin"}, "sub/vocab.json:1: wanted one JSON object"},
           {{"corpus.txt", "--tokenizer", "corpus.txt", "--output", "t.bin"}, "of an unknown kind"},
           {{"corpus.txt", "--tokenizer", gpt2, "--output", "t.txt"}, "wanted a name that ends in .bin"},
           {{"corpus.txt", "--tokenizer", gpt2, "--output", "t.bin", "--dtype", "float"}, "wanted uint16 or uint32"},
           {{"tokens.bin", "--tokenizer", gpt2, "--output", "t.bin"}, "contains tokens, wanted text"},
           {{"corpus.txt", "--tokenizer", "bytes", "--output", "described.bin"},
            "described.bin.json', got a folder there"},
           {{"missing", "--tokenizer", gpt2, "--output", "t.bin"}, "No such file"}}) {
    std::vector<std::string> command{"data", "tokenize"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto got = check_exit(2, f.troupe(command));
    BOOST_TEST(sentences_of(got.err) == 1U, got.err);
    BOOST_TEST(has(got.err, wanted), got.err);
    BOOST_TEST(f.files() == before);
  }
}

BOOST_AUTO_TEST_CASE(the_limit_on_packed_files_and_rows_is_an_option) {
  const command_folder f(smallest);
  const std::string sources = std::string(troupe::places::source_dir) + "/tests/data/fixtures/sources/";
  for (const char* name : {"texts.tar.gz", "plain_none.parquet"}) {
    const std::vector<std::string> command{"data",  "tokenize", sources + name, "--tokenizer",
                                           "bytes", "--output", "t.bin",        "--max-bytes"};
    const auto with = [&](const std::string& bytes) {
      auto all = command;
      all.push_back(bytes);
      return f.troupe(all);
    };
    const auto refused = with("1K");
    BOOST_TEST(refused.code != 0);
    BOOST_TEST(has(refused.err, "the 1024 bytes that remain of data.max_bytes (--max-bytes)"), refused.err);
    check_exit(0, with("1M"));
  }
}

BOOST_AUTO_TEST_CASE(tokens_with_a_header_are_shown_with_its_type) {
  const command_folder f(smallest);
  const auto file = [&](uint32_t magic, uint32_t version, size_t width) {
    std::string bytes(1024 + 3 * width, '\0');
    const std::array<uint32_t, 3> head{magic, version, 3};
    std::memcpy(bytes.data(), head.data(), sizeof head);
    for (size_t i = 0; i < 3; ++i) bytes[1024 + i * width] = static_cast<char>(i + 5);
    return bytes;
  };
  f.folder.write("gpt2.bin", file(20240520, 1, 2));
  f.folder.write("llama3.bin", file(20240801, 7, 4));
  for (const auto& [name, type] : {std::pair("gpt2.bin", "uint16"), std::pair("llama3.bin", "uint32")}) {
    const auto shown = f.troupe({"data", "inspect", name});
    BOOST_TEST(has(shown.out, "3 tokens, " + std::string(type) + ", largest 7"), shown.out + shown.err);
    const auto refused = check_exit(2, f.troupe({"data", "inspect", name, "--dtype", "uint32"}));
    BOOST_TEST(has(refused.err, "--dtype would do nothing here: it is for a file without a header of llm.c"),
               refused.err);
  }
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_what_was_there) {
  const tokens_folder f;
  const std::vector<std::string> command{"data", "tokenize", "corpus.txt", "--tokenizer",
                                         gpt2,   "--output", "t.bin",      "--quiet"};
  BOOST_TEST_REQUIRE(f.troupe(command).code == 0);
  const auto before = f.troupe({"data", "inspect", "t.bin"}).out;
  const size_t files = f.files();
  const auto got = f.troupe(command, [] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  });
  BOOST_TEST(got.code == 1, got.err);
  BOOST_TEST(has(got.err, "t.bin"), got.err);
  BOOST_TEST(f.files() == files);
  BOOST_TEST(f.troupe({"data", "inspect", "t.bin"}).out == before);
}

BOOST_AUTO_TEST_CASE(every_kind_of_source_trains_and_a_bin_trains_as_its_text_does) {
  const auto last = [](const std::string& out) { return out.substr(out.rfind("last loss")); };
  const std::string key = ", text_key: body}";
  tokens_folder text(with_data("{text: lines.jsonl, tokenizer: \"" + gpt2 + "\"" + key));
  const auto from_text = check_exit(0, text.troupe({"train", "job.yaml"}));
  BOOST_TEST(has(from_text.out, "nats/token"), from_text.out);
  BOOST_TEST(has(from_text.out, "The "), from_text.out);
  const auto idle = check_exit(2, text.troupe({"data", "tokenize", "job.yaml", "--tokenizer", "bytes", "--output",
                                               "t.bin", "--text-key", "body"}));
  BOOST_TEST(has(idle.err, "--text-key would do nothing here: it is for JSON lines"), idle.err);
  text.troupe({"data", "tokenize", "lines.jsonl", "--tokenizer", gpt2, "--output", "t.bin", "--text-key", "body"});
  text.folder.write("job.yaml", with_data("{text: t.bin}"));
  const auto from_bin = check_exit(0, text.troupe({"train", "job.yaml", "--steps", "6"}));
  BOOST_TEST(last(from_bin.out) == last(from_text.out));

  text.folder.write("job.yaml",
                    with_data("{sources: [{text: lines.jsonl, weight: 3, text_key: body}, {text: corpus.txt}], "
                              "document_mask: true, validation_fraction: 0.1, tokenizer: \"" +
                              pieces + "\"}"));
  const auto mixed = check_exit(0, text.troupe({"train", "job.yaml"}));
  BOOST_TEST(has(mixed.out, "validation loss"), mixed.out);
}

BOOST_AUTO_TEST_CASE(a_tokenizer_that_does_not_fit_the_model_or_the_tokens_is_refused_before_the_run) {
  tokens_folder f(
      replaced(with_data("{text: corpus.txt, tokenizer: \"" + gpt2 + "\"}"), "vocab_size: 560", "vocab_size: 256"));
  auto got = check_exit(2, f.troupe({"train", "job.yaml"}));
  BOOST_TEST(has(got.err, "the tokenizer has 532 tokens, but the model's vocab_size is 256"), got.err);
  f.troupe({"data", "tokenize", "corpus.txt", "--tokenizer", gpt2, "--output", "t.bin"});
  f.folder.write("job.yaml", with_data("{text: t.bin, tokenizer: \"" + pieces + "\"}"));
  got = f.troupe({"train", "job.yaml"});
  BOOST_TEST(got.code == 2, got.err);
  BOOST_TEST(has(got.err, "t.bin' holds tokens of gpt2"), got.err);
  f.folder.write("job.yaml", with_data("{text: t.bin, tokenizer: bytes-as-ids}"));
  got = f.troupe({"train", "job.yaml"});
  BOOST_TEST(got.code == 2, got.err);
  BOOST_TEST(has(got.err, "but the requested tokenizer is bytes (256 tokens)"), got.err);
  f.troupe({"data", "tokenize", "corpus.txt", "--tokenizer", pieces, "--output", "u.bin"});
  f.folder.write("job.yaml", with_data("{sources: [{text: t.bin}, {text: u.bin}]}"));
  got = f.troupe({"train", "job.yaml"});
  BOOST_TEST(got.code == 2, got.err);
  BOOST_TEST(has(got.err, "t.bin' holds tokens of gpt2"), got.err);
  BOOST_TEST(has(got.err, "u.bin' of sentencepiece"), got.err);
  BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
}

BOOST_AUTO_TEST_CASE(samples_are_shown_a_nan_is_an_absent_value_and_a_file_without_samples_is_said) {
  const command_folder f;
  const std::string chatml = std::string(troupe::places::source_dir) + "/examples/chatml.jinja";
  const auto shown = [&](const char* file) {
    return f.troupe({"data", "inspect", file, "--decode", "2", "--tokenizer", "bytes", "--chat-template", chatml});
  };
  f.folder.write("rows.jsonl",
                 R"({"system": NaN, "score": NaN, "messages": [{"role": "user", "content": "NaN?"},
 {"role": "assistant", "content": "Aye.", "weight": NaN}]})");
  auto rows = scratch_folder::read(f.folder / "rows.jsonl");
  std::erase(rows, '\n');
  f.folder.write("rows.jsonl", rows + "\n");
  const auto r = check_exit(0, shown("rows.jsonl"));
  BOOST_TEST(has(r.out, "NaN?"), r.out);
  BOOST_TEST(has(r.out, "[[Aye."), r.out);
  BOOST_TEST(!has(r.out, "system"), r.out);
  f.folder.write("infinite.jsonl", replaced(rows, "\"score\": NaN", "\"score\": Infinity") + "\n");
  BOOST_TEST(has(check_exit(2, shown("infinite.jsonl")).err, "infinite.jsonl:1: "));
  f.folder.write("none.jsonl", "\n");
  f.folder.write("none.json", "[]");
  for (const char* file : {"none.jsonl", "none.json"}) {
    const auto none = check_exit(2, shown(file));
    BOOST_TEST(has(none.err, std::string(file) + "' holds no samples: nothing to show"), none.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()
