// Tests `troupe evaluate`: losses over texts, answers to questions, and refusals.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(evaluate)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Returns the folder of a run of a few steps with a model that reads 64 bytes, and texts to evaluate it with.
const command_folder& trained() {
  static const command_folder f([] {
    const auto yaml = replaced(smallest, "steps: 6\n", "steps: 40\n");
    return replaced(yaml, "output: out\n", "output: run\ncheckpoint: {every_steps: 40}\ntelemetry: {trace: false}\n");
  }());
  static const bool once = [] {
    check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}));
    f.folder.write("text.txt", made_up_text(1000));
    f.folder.write("q.jsonl", R"({"context": "ABC", "choices": ["EFGH", "\u0001\u0002\u0003\u0004"], "answer": 0})"
                              "\n"
                              R"({"context": "KL", "choices": ["\u0001\u0002", "MN"], "answer": 0})"
                              "\n");
    return true;
  }();
  BOOST_TEST_REQUIRE(once);
  return f;
}

nlohmann::json evaluated(std::vector<std::string> options) {
  options.insert(options.begin(), "evaluate");
  options.emplace_back("--json");
  return nlohmann::json::parse(check_exit(0, trained().troupe(options)).out);
}

void check_refused(std::vector<std::string> options, const std::string& part) {
  options.insert(options.begin(), "evaluate");
  const auto r = check_exit(2, trained().troupe(options));
  BOOST_TEST(has(r.err, part), "no '" << part << "' in: " << r.err);
  BOOST_TEST(sentences_of(r.err) == 1U, r.err);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_token_but_the_first_is_counted_once_whatever_the_window) {
  for (const std::string window : {"64", "63", "7"}) {
    BOOST_TEST_INFO_SCOPE("window " << window);
    const auto r = evaluated({"run", "--text", "text.txt", "--sequence", window})["text"];
    BOOST_TEST(r["tokens"].get<uint64_t>() == 999U);
    const double loss = r["loss"];
    BOOST_TEST((loss > 1 && loss < 6), loss);
    BOOST_TEST(std::abs(r["perplexity"].get<double>() / std::exp(loss) - 1) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(an_exported_model_has_the_loss_of_its_run) {
  const auto& f = trained();
  check_exit(0, f.troupe({"checkpoint", "to-hf", "run", "hf", "--dtype", "fp32", "--quiet"}));
  const auto run = evaluated({"run", "--text", "text.txt"}),
             exported = evaluated({"hf", "--text", "text.txt", "--tokenizer", "bytes"});
  BOOST_TEST(run == exported);
  BOOST_TEST(run == evaluated({"hf", "--text", "text.txt", "--tokenizer", "bytes-as-ids"}));
  BOOST_TEST(run["text"]["sequence"].get<uint64_t>() == 64U);
}

BOOST_AUTO_TEST_CASE(answers_are_those_with_the_larger_log_probability) {
  // The text has capital letters alone, so the model has learned that control characters are less probable.
  const auto r = evaluated({"run", "--choices", "q.jsonl"})["choices"];
  BOOST_TEST(r["questions"].get<uint64_t>() == 2U);
  BOOST_TEST(r["accuracy"].get<double>() == 0.5);
  BOOST_TEST(r["accuracy_by_bytes"].get<double>() == 0.5);
  BOOST_TEST(r["contexts_cut"].get<uint64_t>() == 0U);
  const auto said = check_exit(0, trained().troupe({"evaluate", "run", "--choices", "q.jsonl", "--text", "text.txt"}));
  BOOST_TEST(has(said.out, "text.txt: loss "), said.out);
  BOOST_TEST(has(said.out, "q.jsonl: 2 questions, accuracy "), said.out);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_evaluated_is_refused_by_name) {
  check_refused({"run"}, "wanted --text FILE or --choices FILE, got neither");
  check_refused({"run", "--choices", "q.jsonl", "--sequence", "8"}, "--sequence would do nothing here");
  check_refused({"run", "--text", "text.txt", "--sequence", "65"},
                "--sequence: the model reads 1 to 64 tokens, got 65");
  check_refused({"run", "--text", "missing.txt"}, "--text: ");
  check_refused({"run", "--choices", "text.txt"}, "line 1: ");
  trained().folder.write("one.txt", "a");
  check_refused({"run", "--text", "one.txt"}, "--text: wanted at least 2 tokens, 'one.txt' has 1");
  trained().folder.write(
      "long.jsonl", "{\"context\": \"a\", \"choices\": [\"" + std::string(64, 'b') + "\", \"c\"], \"answer\": 0}\n");
  check_refused({"run", "--choices", "long.jsonl"},
                "line 1: choice 0: wanted at most 64 tokens, which the model reads, got 65");
}

BOOST_AUTO_TEST_SUITE_END()
