// Tests that a run resumes with the data that its checkpoint's position refers to, or reports how the data differ.
#include "actors/loading/data_record.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "checkpoint/native/manifest_text.hpp"
#include "data/token_file.hpp"
#include "tests/check_ok.hpp"
#include "tests/small_job.hpp"

using namespace troupe;
using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

const settings held_out = {"data.validation_fraction=0.1"};
const std::string corpus_alone = "text: corpus.txt";

/// A run of three steps with a checkpoint; `data` is the section `data` of its configuration without the windows.
struct saved_run {
  small_job job;
  std::string data;
  fs::path root = job.folder() / "saved";

  explicit saved_run(std::string of = corpus_alone) : data(std::move(of)) {
    auto s = actors::session::open({.config = config({}, data)});
    if (!s) throw std::runtime_error(s.error().text);
    for (int i = 0; i < 3; ++i) step_of(**s);
    if (auto ok = (*s)->save({.root = root}); !ok) throw std::runtime_error(ok.error().text);
  }

  [[nodiscard]] std::shared_ptr<const config::job_config> config(const settings& set, const std::string& with) const {
    std::string keys = training_keys;
    keys.replace(keys.find(corpus_alone), corpus_alone.size(), with);
    config::load_options options;
    options.overrides = held_out + set;
    auto loaded = config::load_text(tiny_gpt2 + keys, "job.yaml", job.folder().path(), options);
    if (!loaded) throw std::runtime_error(config::render(loaded.error()));
    return std::make_shared<const config::job_config>(loaded->config);
  }

  /// Resumes the run with these settings and returns the warnings, or the text of the refusal.
  [[nodiscard]] std::string resumed(const settings& set, const std::string& with = corpus_alone,
                                    bool changed_data = false) const {
    std::string said;
    actors::session_options options{
        .config = config(set, with), .resume = root, .load = {.changed_data = changed_data}};
    options.hooks.on_warning = [&](const std::string& line) { said += line + "\n"; };
    const auto s = actors::session::open(std::move(options));
    if (!s) return "refused: " + s.error().text;
    BOOST_TEST((*s)->steps_done() == 3U);
    step_of(**s);
    return said;
  }
};

bool has_words(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(data_record)

BOOST_AUTO_TEST_CASE(the_same_data_elsewhere_are_the_same_data) {
  const saved_run run;
  BOOST_TEST(run.resumed({}) == "");
  run.job.folder().write("moved/again/text.txt", made_up_text(4096));
  BOOST_TEST(run.resumed({}, "text: moved/again") == "");
  std::string tokens;  // the text with each byte as a 16-bit token
  for (const char c : made_up_text(4096)) (tokens += c) += '\0';
  run.job.folder().write("text.bin", tokens);
  BOOST_TEST(run.resumed({}, "text: text.bin") == "");
}

BOOST_AUTO_TEST_CASE(other_data_are_refused_with_what_is_another) {
  const saved_run run;
  const auto check = [&](const settings& set, const std::string& with, const std::string& words,
                         const std::string& then = "") {
    const auto said = run.resumed(set, with);
    BOOST_TEST(has_words(said, words +
                                   "; checkpoint.load.changed_data: true (--changed-data) continues at sample 6 of "
                                   "the present data, in their new order" +
                                   then),
               said);
    BOOST_TEST(said.starts_with("refused: '" + (run.root / "step-00000003").string() + "': "), said);
  };
  run.job.folder().write("grown.txt", made_up_text(4096) + made_up_text(1000));
  check({}, "text: grown.txt", "grown.txt' has 5096 tokens, had 4096");
  auto other = made_up_text(4096);
  other[100] = other[100] == 'A' ? 'B' : 'A';
  run.job.folder().write("other.txt", other);
  check({}, "text: other.txt",
        "other.txt' holds other tokens than '" + (run.job.folder() / "corpus.txt").string() + "' did");
  check({"data.sequence_length=8"}, corpus_alone, "data.sequence_length is 8, was 16");
  check({"data.validation_fraction=0.2"}, corpus_alone, "data.validation_fraction is 0.2, was 0.1",
        "; 410 tokens of the validation part may have been trained on");
  check({"data.validation_fraction=0.05"}, corpus_alone, "data.validation_fraction is 0.05, was 0.1");
  check({}, "sources: [{text: corpus.txt}, {text: grown.txt}]", "data has 2 sources, had 1");
  check({"data.shuffle=false"}, corpus_alone, "data.shuffle is false, was true");
}

BOOST_AUTO_TEST_CASE(validation_sets_of_one_name_have_to_hold_the_same_tokens) {
  const std::string with = "text: corpus.txt, validation: {books: books.txt}";
  saved_run run;
  run.job.folder().write("books.txt", made_up_text(500));
  auto s = check_ok(actors::session::open({.config = run.config({}, with)}));
  for (int i = 0; i < 3; ++i) step_of(**s);
  run.root = run.job.folder() / "with a set";
  BOOST_TEST_REQUIRE((*s)->save({.root = run.root}).has_value());
  BOOST_TEST(run.resumed({}, with) == "");
  BOOST_TEST(run.resumed({}) == "");
  BOOST_TEST(run.resumed({}, "text: corpus.txt, validation: {other: corpus.txt, books: books.txt}") == "");
  run.job.folder().write("books.txt", made_up_text(501));
  const auto said = run.resumed({}, with);
  BOOST_TEST(has_words(said,
                       "the set books of data.validation holds other tokens than before; "
                       "checkpoint.load.changed_data: true (--changed-data) continues at sample 6 of the present "
                       "data, in the same order"),
             said);
}

BOOST_AUTO_TEST_CASE(an_order_without_a_shuffle_is_resumed) {
  const saved_run run("text: corpus.txt, shuffle: false");
  BOOST_TEST(run.resumed({}, "text: corpus.txt, shuffle: false") == "");
  const auto said = run.resumed({});
  BOOST_TEST(has_words(said, "data.shuffle is true, was false"), said);
}

BOOST_AUTO_TEST_CASE(other_data_are_taken_where_they_are_asked_for_and_the_next_save_has_them) {
  const saved_run run;
  const settings more = {"data.validation_fraction=0.2"};
  const auto said = run.resumed(more, corpus_alone, true);
  BOOST_TEST(
      has_words(said,
                "data.validation_fraction is 0.2, was 0.1; 410 tokens of the validation part may have been trained on: "
                "the run continues at sample 6 of the data"),
      said);
  const auto config = run.config(more, corpus_alone);
  auto s = check_ok(actors::session::open({.config = config, .resume = run.root, .load = {.changed_data = true}}));
  step_of(**s);
  const auto later = run.job.folder() / "later";
  BOOST_TEST_REQUIRE((*s)->save({.root = later}).has_value());
  BOOST_TEST(actors::session::open({.config = config, .resume = later}).has_value());
  BOOST_TEST(!actors::session::open({.config = run.config({}, corpus_alone), .resume = later}).has_value());
  BOOST_TEST(!(*s)->load(run.root).has_value());
  BOOST_TEST((*s)->load(run.root, {.changed_data = true}).has_value());
}

BOOST_AUTO_TEST_CASE(shares_of_sources_are_compared_and_their_weights_are_not) {
  const auto sources = [](const std::string& first, const std::string& second) {
    return "sources: [{text: corpus.txt, weight: " + first + "}, {text: corpus.txt, weight: " + second + "}]";
  };
  const saved_run run(sources("1", "3"));
  BOOST_TEST(run.resumed({}, sources("0.5", "1.5")) == "");
  const auto said = run.resumed({}, sources("1", "2"));
  BOOST_TEST(has_words(said, "corpus.txt' is 2, was 3"), said);
}

BOOST_AUTO_TEST_CASE(another_end_of_text_is_refused_where_both_are_known) {
  const saved_run run;
  std::string tokens;
  for (const char c : made_up_text(4096)) (tokens += c) += '\0';
  run.job.folder().write("text.bin", tokens);
  data::token_file about;
  about.tokenizer = {.kind = "gpt2", .vocab_size = 96, .end_of_text = 10, .digest = "0123456789abcdef"};
  about.tokens = 4096;
  about.documents = 1;
  run.job.folder().write("text.bin.json", data::as_text(about));
  const auto said = run.resumed({}, "text: text.bin");
  BOOST_TEST(has_words(said,
                       "documents end with token 10, ended with no token; checkpoint.load.changed_data: true "
                       "(--changed-data) continues at sample 6"),
             said);
  BOOST_TEST(has_words(run.resumed({}, "text: text.bin", true), "documents end with token 10, ended with no token"));

  const auto folder = run.root / "step-00000003";
  std::string text;
  std::getline(std::ifstream(folder / "manifest.json"), text, '\0');
  auto known = check_ok(checkpoint::parse_manifest(text));
  BOOST_TEST_REQUIRE(known->run.data->end_of_text.has_value());
  BOOST_TEST(!known->run.data->end_of_text->has_value());
  known->run.data->end_of_text.reset();  // earlier versions did not store this value
  std::ofstream(folder / "manifest.json") << checkpoint::format_manifest(*known).value();
  fs::remove(run.root / "latest");
  BOOST_TEST(actors::session::open({.config = run.config({}, "text: text.bin"), .resume = folder}).has_value());
}

BOOST_AUTO_TEST_CASE(attention_across_documents_is_compared_and_the_order_of_samples_stays) {
  const saved_run run;
  const auto said = run.resumed({"data.document_mask=true"});
  BOOST_TEST(has_words(said,
                       "data.document_mask is true, was false; checkpoint.load.changed_data: true (--changed-data) "
                       "continues at sample 6 of the present data, in the same order"),
             said);
  BOOST_TEST(has_words(run.resumed({"data.document_mask=true"}, corpus_alone, true),
                       "data.document_mask is true, was false: the run continues at sample 6 of the data"));
}

BOOST_AUTO_TEST_CASE(another_choice_of_masked_tokens_is_refused) {
  const small_job job(
      "model: {model_type: bert, num_hidden_layers: 1, hidden_size: 16, num_attention_heads: 2, intermediate_size: 24, "
      "max_position_embeddings: 24, vocab_size: 96, hidden_dropout_prob: 0, attention_probs_dropout_prob: 0}\n");
  const settings masks{"data.masking.mask_token_id=3", "data.masking.probability=0.3"};
  const auto root = job.folder() / "saved";
  {
    const auto s = job.open(masks);
    step_of(*s);
    BOOST_TEST_REQUIRE(s->save({.root = root}).has_value());
  }
  const auto resumed = [&](const settings& set, bool changed_data = false) {
    return actors::session::open(
        {.config = job.config(masks + set), .resume = root, .load = {.changed_data = changed_data}});
  };
  check_ok(resumed({}));
  const std::string then =
      "; checkpoint.load.changed_data: true (--changed-data) continues at sample 2 of the present "
      "data, in the same order";
  check_failed(resumed({"data.masking.probability=0.2"}), "data.masking.probability is 0.2, was 0.3" + then);
  check_failed(resumed({"data.masking.mask=0.7"}), "data.masking.mask is 0.7, was 0.8" + then);
  check_failed(resumed({"data.masking.random=0.2"}), "data.masking.random is 0.2, was 0.1" + then);
  check_failed(resumed({"data.masking.mask_token_id=4"}), "data.masking.mask_token_id is 4, was 3" + then);
  check_failed(resumed({"model.eos_token_id=5"}), "data.masking spares other special tokens than before" + then);
  check_ok(resumed({"data.masking.probability=0.2"}, true));
}

BOOST_AUTO_TEST_CASE(weights_alone_and_checkpoints_without_a_record_are_taken) {
  const saved_run run;
  auto options = actors::session_options{.config = run.config({"data.sequence_length=8"}, corpus_alone),
                                         .resume = run.root,
                                         .load = {.load_module_only = true}};
  BOOST_TEST(actors::session::open(std::move(options)).has_value());

  const auto file = run.root / "step-00000003" / "manifest.json";
  std::string text;
  std::getline(std::ifstream(file), text, '\0');
  auto known = check_ok(checkpoint::parse_manifest(text));
  BOOST_TEST_REQUIRE(known->run.data.has_value());
  BOOST_TEST(known->run.data->sources.front().tokens == 4096U);
  known->run.data.reset();
  std::ofstream(file) << checkpoint::format_manifest(*known).value();
  fs::remove(run.root / "latest");
  std::string said;
  actors::session_options older{.config = run.config({}, corpus_alone), .resume = run.root / "step-00000003"};
  older.hooks.on_warning = [&](const std::string& line) { said += line; };
  check_ok(actors::session::open(std::move(older)));
  BOOST_TEST(has_words(said, "does not say which data it was trained on: the present data are assumed to be the same"),
             said);
}

BOOST_AUTO_TEST_CASE(long_texts_are_compared_by_blocks_that_lie_evenly_over_them) {
  const scratch_folder at;
  std::string text(3 * actors::digested_tokens, 'a');
  const auto record = [&] {
    const auto stream = check_ok(data::open_tokens({.path = at.write("t.txt", text)}));
    const auto corpus = check_ok(data::corpus::make({{*stream}}, {.sequence = 16}));
    return actors::record_of(*corpus, {"t.txt"}, 0, "bytes").value();
  };
  const auto first = record();
  BOOST_TEST((record() == first));
  for (const size_t place : {size_t{0}, text.size() - 1}) {
    text[place] = 'b';
    BOOST_TEST((record() != first), place);
    text[place] = 'a';
  }
  for (size_t i = 0; i < 3 * actors::digested_block_tokens; ++i) text[text.size() / 2 + i] = 'b';
  BOOST_TEST((record() != first));
}

BOOST_AUTO_TEST_CASE(a_set_has_one_digest_whatever_other_sets_there_are) {
  const scratch_folder at;
  const auto stream_of = [&](const std::string& name, size_t bytes) {
    auto opened = check_ok(data::open_tokens({.path = at.write(name, made_up_text(bytes))}));
    return std::move(*opened);
  };
  const auto trained = stream_of("t.txt", 1000), other = stream_of("o.txt", 1000),
             books = stream_of("b.txt", 4 * actors::digested_set_tokens);
  const auto sets_with = [&](std::vector<data::validation_stream> sets) {
    const auto corpus = check_ok(data::corpus::make({{trained}}, {.sequence = 16}, std::move(sets)));
    return actors::record_of(*corpus, {"t.txt"}, 0, "bytes").value().validation;
  };
  const auto alone = sets_with({{"books", books, "b.txt"}});
  const auto both = sets_with({{"other", other, "o.txt"}, {"books", books, "b.txt"}});
  BOOST_TEST_REQUIRE((alone.size() == 1U && both.size() == 2U));
  BOOST_TEST((alone[0] == both[1]));
  BOOST_TEST((alone[0].set == "books" && alone[0].tokens == books->size()));
}

BOOST_AUTO_TEST_SUITE_END()
