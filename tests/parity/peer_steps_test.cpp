// Compares two steps of AdamW and 64 greedy tokens of every family with those of transformers and torch
// (tests/peer/make_steps_fixtures.py). Each model runs as a user runs it: a session reads the model's folder and a file
// of tokens, uncut and in one cut more, which differs from model to model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors/safetensors.hpp"
#include "tests/check_ok.hpp"
#include "tests/parity/run_result.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(peer_steps)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests" / "models" / "fixtures";

/// Largest relative difference of a loss, and of a parameter's sum, norm and elements. Measured in all fixtures and
/// cuts were at most 1.6e-7 for losses and 2.9e-6 for parameters.
constexpr double tolerance = 1e-5;

/// Lengths of the samples of models of 16 positions, and of models that also generate.
constexpr uint64_t short_sequence = 12, long_sequence = 72;

template <class T>
std::vector<T> values_of(const formats::safetensors_file& file, const std::string& name) {
  const auto* entry = file.find(name);
  BOOST_REQUIRE_MESSAGE(entry != nullptr, name << " is missing in the fixture");
  const auto bytes = check_ok(file.bytes(*entry));
  std::vector<T> out(bytes->size() / sizeof(T));
  std::memcpy(out.data(), bytes->data(), bytes->size());
  return out;
}

/// A job with the model, the text and the optimizer of a fixture.
class steps_job {
 public:
  explicit steps_job(const std::string& name)
      : expected_(*check_ok(formats::safetensors_file::open(fixtures / name / "steps.safetensors"))),
        job_("model: {path: model}\n") {
    std::string keys = scratch_folder::read(fixtures / name / "config.json");
    const std::string few = "\"max_position_embeddings\": 16";
    const auto at = keys.find(few);
    if (generates() && at != std::string::npos) keys.replace(at, few.size(), "\"max_position_embeddings\": 80");
    job_.folder().write("model/config.json", keys);
    fs::copy(fixtures / name / "model.safetensors", job_.folder() / "model");
    std::string tokens;
    for (const int64_t token : values_of<int64_t>(expected_, "tokens")) {
      tokens.push_back(static_cast<char>(token));
      tokens.push_back(0);  // the upper byte: vocabularies have less than 128 words
    }
    job_.folder().write("text.bin", tokens);
    const auto o = values_of<double>(expected_, "optimizer");
    set_ = {fmt::format("data.text={}", (job_.folder() / "text.bin").string()),
            fmt::format("data.sequence_length={}", generates() ? long_sequence : short_sequence),
            fmt::format("optimizer.params={{lr: {}, betas: [{}, {}], eps: {:.1e}, weight_decay: {}}}", o[0], o[1], o[2],
                        o[3], o[4])};
    if (name.starts_with("bert") || name.starts_with("roberta"))
      set_.emplace_back("data.masking={probability: 0.3, mask: 0.5, random: 0.3, mask_token_id: 3}");
  }

  /// True if the fixture has a text that the peer generated.
  [[nodiscard]] bool generates() const { return expected_.find("greedy") != nullptr; }
  [[nodiscard]] std::unique_ptr<actors::session> open(const settings& cut) const { return job_.open(set_ + cut); }

  void check_text(actors::session& s) const {
    auto wanted = values_of<int64_t>(expected_, "prompt");
    const auto text = values_of<int64_t>(expected_, "greedy");
    const auto got = check_ok(s.generate(wanted, text.size(), 0));
    wanted.insert(wanted.end(), text.begin(), text.end());
    BOOST_TEST(*got == wanted, boost::test_tools::per_element());
  }

  /// Trains and compares the losses of all steps, and the parameters before the last one.
  void check_steps(actors::session& s) const {
    const auto losses = values_of<double>(expected_, "losses");
    for (size_t i = 0; i < losses.size(); ++i) {
      if (i + 1 == losses.size()) check_parameters(s);
      const double loss = step_of(s).loss;
      BOOST_TEST(std::abs(loss / losses[i] - 1) <= tolerance,
                 "the loss of step " << i + 1 << " is " << loss << ", the peer's " << losses[i]);
    }
  }

 private:
  void check_parameters(const actors::session& s) const {
    const auto& table = s.table();
    std::vector<std::string> compared;
    for (uint32_t q = 0; q < table.parameters.size(); ++q) {
      const std::string& name = table.parameters[table.original(q)].name;
      check_parameter(name, parameter_of(s, q), values_of<double>(expected_, "after." + name));
      if (std::ranges::find(compared, name) == compared.end()) compared.push_back(name);
    }
    const auto is_parameter = [](const formats::safetensors_entry& e) { return e.name.starts_with("after."); };
    BOOST_TEST(static_cast<int64_t>(compared.size()) == std::ranges::count_if(expected_.entries(), is_parameter));
  }

  /// Compares a parameter with the peer's sum, norm and samples of its elements (`wanted`, in this order).
  static void check_parameter(const std::string& name, const std::vector<float>& got,
                              const std::vector<double>& wanted) {
    BOOST_TEST_REQUIRE(wanted.size() > 2U);
    double sum = 0, magnitudes = 0, squares = 0;
    for (const float x : got) {
      sum += double(x);
      magnitudes += std::abs(double(x));
      squares += double(x) * double(x);
    }
    const std::span<const double> sampled = std::span(wanted).subspan(2);
    std::vector<double> samples;
    const size_t apart = std::max<size_t>(1, got.size() / num_samples);
    for (size_t i = 0; i < got.size(); i += apart) samples.push_back(double(got[i]));
    BOOST_TEST_REQUIRE(samples.size() == sampled.size());
    const double differences[] = {std::abs(sum - wanted[0]) / magnitudes, std::abs(std::sqrt(squares) / wanted[1] - 1),
                                  relative_difference(samples, sampled)};
    BOOST_TEST(std::ranges::max(differences) <= tolerance, name << " differs by " << differences[0] << " in its sum, "
                                                                << differences[1] << " in its norm and "
                                                                << differences[2] << " in elements");
  }

  static constexpr size_t num_samples = 16;  // of a parameter's elements, at least

  formats::safetensors_file expected_;
  small_job job_;
  settings set_;
};

settings rows(int per_rank, int data, int micros = 1) {
  return {fmt::format("train_micro_batch_size_per_gpu={}", per_rank), fmt::format("parallel.data={}", data),
          fmt::format("gradient_accumulation_steps={}", micros)};
}
settings stage(int n) { return {fmt::format("zero_optimization.stage={}", n)}; }

const settings ranks = rows(1, 2), micros = rows(1, 1, 2), whole = rows(2, 1);
const settings again = {"activation_checkpointing.enabled=true"}, tensor = {"parallel.tensor=2"},
               sequence = {"parallel.sequence=2"}, context = {"parallel.context=2"},
               pipeline = {"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
               gathered = {"zero_optimization.stage3_param_persistence_threshold=0"};

struct peers_case {
  const char* name;  // of a fixture
  settings cut;
};

const peers_case cases[] = {
    {"gpt2", whole + tensor + stage(1)},
    {"gpt2_untied", micros + again + stage(1)},
    {"gpt2_scaled", whole + context + stage(2)},
    {"gpt2_by_layer", micros + pipeline + stage(3)},
    {"gpt2_long", micros + pipeline + stage(3)},
    {"llama", whole + sequence + stage(2)},
    {"llama_tied_bias", whole + tensor + stage(1)},
    {"llama_mish", whole + sequence + stage(2)},
    {"llama_padding", ranks + gathered + stage(3)},
    {"llama_rope_llama3", whole + context + stage(2)},
    {"llama_rope_linear", micros + pipeline + stage(3)},
    {"llama_rope_dynamic", whole + sequence + stage(2)},
    {"llama_rope_yarn", ranks + stage(0)},
    {"llama_rope_longrope", whole + context + stage(2)},
    {"mistral", whole + context + stage(2)},
    {"mistral_window", whole + tensor + stage(1)},
    {"qwen2", micros + pipeline + stage(3)},
    {"qwen2_window", whole + sequence + stage(2)},
    {"qwen2_padding", whole + tensor + stage(1)},
    {"qwen2_heads", whole + context + stage(2)},
    {"qwen3", ranks + gathered + stage(3)},
    {"qwen3_bias", whole + context + stage(2)},
    {"olmo2", micros + pipeline + stage(3)},
    {"olmo2_bias", whole + sequence + stage(2)},
    {"granite", whole + tensor + stage(1)},
    {"granite_bias", whole + context + stage(2)},
    {"gemma2", whole + sequence + stage(2)},
    {"gemma3", whole + context + stage(2)},
    {"gemma3_bias", ranks + gathered + stage(3)},
    {"phi3", whole + tensor + stage(1)},
    {"phi3_longrope", micros + pipeline + stage(3)},
    {"gpt_neox", whole + context + stage(2)},
    {"gpt_neox_sequential", whole + sequence + stage(2)},
    {"smollm3", whole + context + stage(2)},
    {"smollm3_untied", whole + tensor + stage(1)},
    {"bert", whole + tensor + stage(1)},
    {"bert_gelu_new", whole + sequence + stage(2)},
    {"roberta", micros + pipeline + stage(3)},
};

}  // namespace

BOOST_AUTO_TEST_CASE(two_steps_have_the_peers_losses_and_weights_and_its_64_greedy_tokens_follow_a_prompt) {
  for (const auto& each : cases) BOOST_TEST_CONTEXT(each.name) {
      const steps_job job(each.name);
      const auto s = job.open(whole + stage(0));
      if (job.generates()) job.check_text(*s);
      job.check_steps(*s);
    }
}

BOOST_AUTO_TEST_CASE(a_cut_of_each_family_has_the_peers_losses_weights_and_tokens_too) {
  for (const auto& each : cases) BOOST_TEST_CONTEXT(each.name << text_of(each.cut)) {
      const steps_job job(each.name);
      const auto s = job.open(each.cut);
      if (job.generates()) job.check_text(*s);
      job.check_steps(*s);
    }
}

BOOST_AUTO_TEST_CASE(every_fixture_of_a_model_has_steps) {
  for (const auto& folder : fs::directory_iterator(fixtures)) {
    const std::string name = folder.path().filename().string();
    if (name.starts_with("lora_")) continue;  // an adapter, whose steps parity/adapters_test.cpp compares
    BOOST_TEST(std::ranges::count(cases, name, [](const peers_case& c) { return std::string(c.name); }) == 1, name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
