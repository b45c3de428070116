// Tests a session as a host program sees it, apart from training steps: evaluation, generation, stopping, refusals,
// export.
#include <c10/core/Allocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>

#include "tests/check_ok.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string two_blocks =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";

size_t files_below(const std::filesystem::path& folder) {
  const std::filesystem::recursive_directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

std::vector<int64_t> generated(actors::session& s, double temperature, std::vector<int64_t> prompt = {65, 66, 67}) {
  auto text = s.generate(std::move(prompt), 20, temperature);
  if (!text) throw std::runtime_error(text.error().text);
  return *text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(evaluation_changes_nothing_and_is_the_same_at_every_stage) {
  const small_job job(two_blocks);
  std::vector<double> losses;
  for (int stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    auto s = job.open({fmt::format("zero_optimization.stage={}", stage), "parallel.data=2",
                       "data.validation_fraction=0.1", "zero_optimization.stage3_param_persistence_threshold=0"});
    step_of(*s);
    const auto before = check_ok(s->evaluate());
    BOOST_TEST(s->evaluate().value() == *before);
    BOOST_TEST(s->steps_done() == 1U);
    losses.push_back(*before);
    losses.push_back(step_of(*s).loss);
  }
  for (size_t i = 2; i < losses.size(); ++i) BOOST_TEST(losses[i] == losses[i % 2]);
}

BOOST_AUTO_TEST_CASE(evaluation_drops_nothing_out) {
  const settings set = {"data.validation_fraction=0.1", "parallel.data=2"};
  const small_job plain(tiny_gpt2), dropping(tiny_gpt2_with_dropout);
  auto a = plain.open(set), b = dropping.open(set);
  BOOST_TEST(a->evaluate().value() == b->evaluate().value());
  BOOST_TEST(step_of(*a).loss != step_of(*b).loss);
}

BOOST_AUTO_TEST_CASE(a_validation_part_smaller_than_a_batch_is_evaluated_too) {
  const small_job job(two_blocks);
  const settings one_window = {"data.validation_fraction=0.005"};
  auto alone = job.open(one_window), together = job.open(one_window + settings{"parallel.data=2"});
  BOOST_TEST_REQUIRE(alone->validation_tokens() == 20U);
  const auto loss = check_ok(alone->evaluate());
  BOOST_TEST(together->evaluate().value() == *loss);
}

BOOST_AUTO_TEST_CASE(evaluation_without_a_validation_part_is_refused_and_the_run_continues) {
  const small_job job(two_blocks);
  auto s = job.open({});
  check_error(s->evaluate(),
              "evaluation: there is no validation part; set data.validation_fraction or data.validation");
  BOOST_TEST(step_of(*s).step == 1U);
}

BOOST_AUTO_TEST_CASE(generation_depends_on_weights_and_seed_alone) {
  const small_job job(two_blocks);
  const settings sharded = {"parallel.data=2", "zero_optimization.stage=3",
                            "zero_optimization.stage3_param_persistence_threshold=0"};
  auto a = job.open({}), b = job.open(sharded), c = job.open({"seed=8"});
  const auto text = generated(*a, 0.8);
  BOOST_TEST(text.size() == 23U);
  BOOST_TEST(generated(*a, 0.8) == text, boost::test_tools::per_element());
  BOOST_TEST(generated(*b, 0.8) == text, boost::test_tools::per_element());
  BOOST_TEST(generated(*c, 0.8) != text);
  BOOST_TEST(generated(*a, 0) == generated(*b, 0), boost::test_tools::per_element());
  for (int64_t t : text) BOOST_TEST_CONTEXT("t " << t) BOOST_TEST((t >= 0 && t < 96));
}

BOOST_AUTO_TEST_CASE(generation_takes_prompts_of_any_length_and_refuses_strange_tokens) {
  const small_job job(two_blocks);
  auto s = job.open({"parallel.data=2"});
  const std::vector<int64_t> tail(16, 70);
  std::vector<int64_t> longer(100, 65);
  longer.insert(longer.end(), tail.begin(), tail.end());
  const auto a = generated(*s, 0.8, longer), b = generated(*s, 0.8, tail);
  BOOST_TEST(std::equal(a.begin() + 100, a.end(), b.begin(), b.end()), "more than a sequence was looked at");
  BOOST_TEST(s->generate({}, 3, 0.8).error().text == "sample.prompt: wanted at least one token, got none");
  BOOST_TEST(s->generate({65, 96}, 3, 0.8).error().text == "sample.prompt: token 96 is not in the vocabulary of 96");
  BOOST_TEST(s->generate({65, -1}, 3, 0.8).error().text == "sample.prompt: token -1 is not in the vocabulary of 96");
  BOOST_TEST(step_of(*s).step == 1U);
}

BOOST_AUTO_TEST_CASE(a_stopped_run_returns_one_error_from_then_on) {
  const small_job job(two_blocks);
  auto s = job.open({"parallel.data=2", "zero_optimization.stage=3"});
  step_of(*s);
  std::thread([&] { s->stop("the host had enough"); }).join();
  // The request to stop is an asynchronous message, so a few steps may be done before it arrives, but not many.
  core::result<actors::step_report> r = s->step();
  for (int i = 0; i < 1000 && r.has_value(); ++i) r = s->step();
  BOOST_TEST_REQUIRE(!r.has_value());
  BOOST_TEST((r.error().kind == core::error_kind::stopped));
  BOOST_TEST(r.error().text == "the host had enough");
  BOOST_TEST(s->step().error().text == "the host had enough");
  BOOST_TEST(s->generate({65}, 1, 0).error().text == "the host had enough");
}

BOOST_AUTO_TEST_CASE(a_stop_in_the_middle_of_a_step_ends_it) {
  const small_job job(two_blocks);
  auto s = job.open({"parallel.data=2", "gradient_accumulation_steps=2000"});
  std::thread other([&] { s->stop("enough"); });
  const auto r = s->step();
  other.join();
  BOOST_TEST_REQUIRE(!r.has_value());
  BOOST_TEST(r.error().text == "enough");
}

BOOST_AUTO_TEST_CASE(a_configuration_that_cannot_open_is_refused_in_one_sentence_and_leaves_nothing) {
  struct refusal {
    std::string model, text;
    settings set;
    std::string wanted;  // text that the error must contain
  };
  const std::string big =
      "model: {model_type: gpt2, n_layer: 1, n_embd: 8, n_head: 1, n_positions: 8, vocab_size: 96, embd_pdrop: 0}\n";
  const std::vector<refusal> all = {
      {two_blocks, "TOO SHORT", {}, "one sequence"},
      {two_blocks, std::string(100, 'a'), {}, "token 97 at position 0"},
      {big, made_up_text(4096), {"data.sequence_length=8", "parallel.data=64"}, "parallel.data: 64 ranks"},
      {two_blocks, made_up_text(4096), {"data.text=nowhere.txt"}, "nowhere.txt"},
      {two_blocks,
       made_up_text(4096),
       {"data.sequence_length=25"},
       "data.sequence_length: wanted at most the model's 24 positions, got 25"},
      {two_blocks, made_up_text(4096), {"cluster.host_memory_budget=100000"}, "budget"},
      {"model: {path: nowhere}\n", made_up_text(4096), {}, "nowhere"},
      {"model: {model_type: mamba}\n", made_up_text(4096), {}, "mamba"},
      {two_blocks, made_up_text(100), {"data.validation_fraction=0.05"}, "validation"},
  };
  const auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  for (const auto& c : all) BOOST_TEST_CONTEXT(c.wanted) {
      std::string text;
      try {
        const small_job job(c.model, c.text);
        const size_t files = files_below(job.folder().path());
        const auto s = job.try_open(c.set);
        BOOST_TEST_REQUIRE(!s.has_value());
        text = s.error().text;
        BOOST_TEST(files_below(job.folder().path()) == files);
      } catch (const std::runtime_error& e) {  // small_job throws if the configuration is refused when it is read
        text = e.what();
        if (text.ends_with('\n')) text.pop_back();
      }
      BOOST_TEST_MESSAGE(text);
      BOOST_TEST(text.find(c.wanted) != std::string::npos, text);
      BOOST_TEST(text.find('\n') == std::string::npos, text);
      BOOST_TEST(c10::GetAllocator(c10::DeviceType::CPU) == allocator);
    }
}

BOOST_AUTO_TEST_CASE(an_exported_model_opens_with_the_same_weights_and_trains) {
  const small_job job(two_blocks);
  auto a = job.open({"parallel.data=2", "zero_optimization.stage=3", "data.validation_fraction=0.1"});
  for (int i = 0; i < 3; ++i) step_of(*a);
  const auto folder = (job.folder() / "exported").string();
  // The shard size of 40,000 bytes results in several files.
  BOOST_TEST_REQUIRE(a->export_hugging_face(folder, 40000).has_value());
  BOOST_TEST(std::filesystem::exists(job.folder() / "exported/model.safetensors.index.json"));

  auto loaded = check_ok(config::load_text("model: {path: exported}\n" + training_keys, "job.yaml", job.folder().path(),
                                           {.overrides = {"data.validation_fraction=0.1"}}));
  auto b = check_ok(actors::session::open(std::make_shared<const config::job_config>(loaded->config)));
  for (uint32_t q = 0; q < a->table().parameters.size(); ++q) BOOST_TEST(parameter_of(*a, q) == parameter_of(**b, q));
  BOOST_TEST(a->evaluate().value() == (*b)->evaluate().value(), boost::test_tools::tolerance(1e-6));
  const double first = step_of(**b).loss;
  for (int i = 0; i < 5; ++i) step_of(**b);
  BOOST_TEST(step_of(**b).loss < first);
}

BOOST_AUTO_TEST_CASE(numbers_that_mean_nothing_are_refused_with_a_sentence_and_the_run_continues) {
  const small_job job(two_blocks + "parameter_groups: [{match: 'wpe\\.', trainable: false}]\n");
  auto s = job.open({});
  step_of(*s);
  const auto refused = [](const auto& r, const std::string& text) {
    BOOST_TEST_REQUIRE(!r.has_value(), text);
    BOOST_TEST((r.error().kind == core::error_kind::bad_input));
    BOOST_TEST(r.error().text.find(text) != std::string::npos, r.error().text);
  };
  std::vector<float> some(8);
  std::vector<double> more(8);
  const auto& parameters = s->table().parameters;
  const auto frozen = static_cast<uint32_t>(
      std::ranges::find_if(parameters, [](const auto& p) { return !p.trainable; }) - parameters.begin());
  BOOST_TEST_REQUIRE(frozen < parameters.size());
  const uint64_t all = parameters[0].numel();
  const std::string none = "parameter 4000000000: wanted one of 0 to ";
  refused(s->read_parameter(4'000'000'000, 0, some), none);
  refused(s->read_moment(4'000'000'000, 0, some), none);
  refused(s->read_gradient(4'000'000'000, more), none);
  refused(s->read_parameter(0, all - 7, some), fmt::format("wanted elements within its {}, got 8 from", all));
  refused(s->read_parameter(0, UINT64_MAX, some), "wanted elements within its ");
  std::vector<float> too_many(all + 1);
  refused(s->read_moment(0, 0, too_many), "wanted elements within its ");
  refused(s->read_moment(0, 99, some), "wanted its moment 0, 1 or 2, got 99");
  refused(s->read_moment(0, -1, some), "wanted its moment 0, 1 or 2, got -1");
  refused(s->read_gradient(frozen, more), "wanted its gradient, but it is frozen and has none");
  BOOST_TEST(s->read_parameter(0, all - 8, some).has_value());
  for (const double temperature : {std::nan(""), -1.0, HUGE_VAL, -HUGE_VAL})
    refused(s->generate({65}, 1, temperature), "sample.temperature: wanted a finite number of at least 0, got ");
  refused(s->generate({96}, 1, 1), "is not in the vocabulary");
  refused(s->generate({}, 1, 1), "at least one token");
  refused(s->change_degrees(nullptr), "no configuration");
  refused(actors::session::open(actors::session_options{}), "no configuration");
  refused(actors::session::choose_degrees({}), "no configuration");
  refused(s->compile({{.step = 1, .own = {nullptr}}}), "wanted passes, got a null pointer");
  BOOST_TEST(step_of(*s).step == 2U);
}

BOOST_AUTO_TEST_CASE(an_export_that_cannot_be_written_is_an_error_and_the_run_continues) {
  const small_job job(two_blocks);
  auto s = job.open({});
  job.folder().write("a file", "");
  check_failed(s->export_hugging_face((job.folder() / "a file").string() + "/below"), "a file");
  BOOST_TEST(step_of(*s).step == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
