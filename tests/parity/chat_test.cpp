// Trains on answers only in whole runs: the loss is that of transformers with labels -100, the mean is over the tokens
// that count in the whole global batch however it is cut, and a resumed run notices other answers.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/check_ok.hpp"
#include "tests/data/chat_fixture.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(chat)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Number of rows into which the conversations of the fixture are packed: an epoch is one step.
constexpr uint64_t rows = 4;
constexpr uint64_t steps = 3;

/// A job on the fixture's conversations and its tiny model.
core::result<std::unique_ptr<actors::session>> try_open(const settings& set) {
  const auto at = chat_fixtures().string();
  config::load_options options;
  options.overrides = set;
  const std::string text = "model: {path: " + at + "/model}\ndata: {chat: " + at + "/messages.jsonl, tokenizer: " + at +
                           "/model, sequence_length: 128}\nseed: 7\nsteps: 10\ntrain_micro_batch_size_per_gpu: 1\n"
                           "optimizer: {type: AdamW, params: {lr: 1.0e-2, weight_decay: 0.1}}\n"
                           "telemetry: {trace: false}\n";
  const scratch_folder folder;
  auto loaded = config::load_text(text, "job.yaml", folder.path(), options);
  if (!loaded) return core::refused(config::render(loaded.error()));
  return actors::session::open(std::make_shared<const config::job_config>(loaded->config));
}

run_result trained(const settings& set, first_gradients gradients = first_gradients::unread) {
  auto s = *check_ok(try_open(set));
  return result_of(*s, steps, gradients);
}

settings cut(uint64_t data, uint64_t micros) {
  return {"parallel.data=" + fmt::to_string(data), "gradient_accumulation_steps=" + fmt::to_string(micros),
          "train_micro_batch_size_per_gpu=" + fmt::to_string(rows / data / micros)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_loss_of_the_answers_is_that_of_transformers) {
  const auto expected = read_json(chat_fixtures() / "expected.json");
  const auto s = *check_ok(try_open(cut(1, 1)));
  const auto report = step_of(*s);
  const double wanted = expected["loss"].get<double>();
  BOOST_TEST(std::abs(report.loss - wanted) <= 1e-5 * wanted, report.loss << " against " << wanted);
  BOOST_TEST(report.counted == expected["counted"].get<uint64_t>());
  BOOST_TEST(report.tokens == rows * 128);
  std::string answers;
  for (const auto& [text, counts] : s->first_sample())
    if (counts) answers += text;
  BOOST_TEST(answers == "Hello! How are you?<|im_end|>\n");
}

// Rows have different numbers of answers' tokens; a mean of the means of micro-batches would differ.
BOOST_AUTO_TEST_CASE(the_mean_is_over_the_tokens_that_count_in_the_whole_step) {
  const settings common = {"data_types.param_dtype=fp64", "gradient_order=per_step"};
  const auto whole = trained(common + cut(1, 1), first_gradients::read);
  for (const settings& each : {cut(1, 4), cut(2, 1), cut(2, 2), cut(4, 1)})
    BOOST_TEST_CONTEXT(text_of(each)) {
      const auto got = trained(common + each, first_gradients::read);
      check_near(got, whole, 1e-12);
      check_gradients(got, whole, 1e-12);
    }
}

BOOST_AUTO_TEST_CASE(stages_and_pipelines_change_no_bit) {
  const settings common = cut(2, 2) + settings{"tied_gradients=per_use"};
  const auto reference = trained(common + settings{"zero_optimization.stage=0", "gradient_order=per_step"});
  for (const settings& each : {settings{"zero_optimization.stage=1"}, settings{"zero_optimization.stage=3"},
                               settings{"zero_optimization.stage=1", "parallel.pipeline=2"}})
    BOOST_TEST_CONTEXT(text_of(each))
      check_same(trained(common + each + settings{"gradient_order=per_step"}), reference);
}

BOOST_AUTO_TEST_CASE(an_evaluation_counts_the_answers_of_the_held_out_conversations) {
  const settings held_out = {"data.validation_fraction=0.34", "data_types.param_dtype=fp64"};
  const auto one = *check_ok(try_open(held_out + cut(1, 1))), two = *check_ok(try_open(held_out + cut(2, 1)));
  const double whole = *check_ok(one->evaluate()), halves = *check_ok(two->evaluate());
  BOOST_TEST(std::abs(halves / whole - 1) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(a_resumed_run_notices_other_answers) {
  const scratch_folder at;
  std::filesystem::path saved;
  {
    auto s = *check_ok(try_open(cut(1, 1)));
    step_of(*s);
    saved = *check_ok(s->save({.root = at / "saved"}));
  }
  const auto resumed = [&](const settings& more) {
    auto s = *check_ok(try_open(cut(1, 1) + more));
    return s->load(saved);
  };
  check_ok(resumed({}));
  check_failed(resumed({"data.loss_on=last"}), "holds other tokens than");
  check_failed(resumed({"data.too_long=cut"}), "holds other tokens than");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_done_is_refused_by_name) {
  const auto at = chat_fixtures();
  check_failed(try_open({"data.text=" + (at / "messages.jsonl").string()}),
               "cannot be combined with data.text: remove one of the two");
  check_failed(try_open({"data.chat_template=" + (at / "none.jinja").string()}), "which does not exist");
  check_failed(try_open({"data.sequence_length=64"}), "messages.jsonl:2: the sample has 74 tokens, and a row has 64");
  check_failed(try_open({"data.chat_template=joined"}), "messages.jsonl:1: data.chat_template: wanted a template");
}

BOOST_AUTO_TEST_SUITE_END()
