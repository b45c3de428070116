// Tests overflow, loss scale, learning-rate schedule and non-finite numbers in whole runs.
#include <limits>

#include "formats/safetensors/weights_folder.hpp"
#include "kernels/optimizer/schedule.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_precision)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string two_blocks =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";

std::vector<std::vector<float>> weights_of(const actors::session& s) {
  std::vector<std::vector<float>> out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) out.push_back(parameter_of(s, q));
  return out;
}

std::vector<std::vector<float>> moments_of(const actors::session& s) {
  std::vector<std::vector<float>> out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q)
    for (int which : {0, 1}) out.push_back(moment_of(s, q, which));
  return out;
}

// Writes a Hugging Face folder with the weights of the job's seed, except for one element that is NaN, and returns its
// path.
std::filesystem::path write_poisoned(const small_job& job, const std::string& parameter) {
  auto s = job.open({});
  const auto folder = job.folder() / "poisoned";
  BOOST_TEST_REQUIRE(s->export_hugging_face(folder.string()).has_value());
  auto weights = weights_of(*s);
  std::vector<formats::tensor_to_write> tensors;
  bool found = false;
  for (uint32_t q = 0; q < weights.size(); ++q) {
    const auto& p = s->table().parameters[q];
    if (p.name == parameter) {
      weights[q][weights[q].size() / 2] = std::numeric_limits<float>::quiet_NaN();
      found = true;
    }
    tensors.push_back({p.name, core::dtype::f32, p.shape, std::as_bytes(std::span(weights[q])), {}});
  }
  BOOST_TEST_REQUIRE(found);
  BOOST_TEST_REQUIRE(formats::write_weights_folder(folder, tensors).has_value());
  return folder;
}

struct poisoned_job {
  small_job source{two_blocks};
  std::filesystem::path folder;
  explicit poisoned_job(const std::string& parameter) : folder(write_poisoned(source, parameter)) {}

  [[nodiscard]] std::unique_ptr<actors::session> open(const settings& set) const {
    const std::string text = "model: {path: " + folder.string() + "}\n" + training_keys;
    config::load_options options;
    options.overrides = set;
    auto loaded = config::load_text(text, "job.yaml", source.folder().path(), options);
    if (!loaded) throw std::runtime_error(config::render(loaded.error()));
    auto s = actors::session::open(std::make_shared<const config::job_config>(loaded->config));
    if (!s) throw std::runtime_error(s.error().text);
    return std::move(*s);
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(an_overflow_in_fp16_skips_the_whole_step) {
  for (const char* stage : {"zero_optimization.stage=1", "zero_optimization.stage=3"}) {
    BOOST_TEST_INFO_SCOPE(stage);
    const small_job job(two_blocks);
    auto s = job.open({stage, "parallel.data=2", "fp16.enabled=true", "fp16.initial_scale_power=24",
                       "scheduler.type=WarmupLR", "scheduler.params.warmup_num_steps=4",
                       "scheduler.params.warmup_type=linear"});
    const kernels::schedule_options schedule{.type = core::schedule_type::warmup,
                                             .warmup_num_steps = 4,
                                             .warmup_type = core::warmup_shape::linear,
                                             .base_lr = 1e-2};
    const auto weights = weights_of(*s);
    const auto moments = moments_of(*s);
    int64_t applied = 0;
    uint64_t skipped = 0;
    // One overflow uses up the hysteresis of 2; from then on each overflow halves the scale.
    double scale = 16777216;
    for (int i = 0; i < 20 && applied < 4; ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const auto r = step_of(*s);
      BOOST_TEST(r.step == uint64_t(i) + 1);
      BOOST_TEST(r.loss_scale == scale);
      BOOST_TEST(r.lr == kernels::learning_rate(schedule, applied - 1));
      BOOST_TEST(std::isfinite(r.loss));
      BOOST_TEST(std::isfinite(r.grad_norm) == !r.skipped);
      if (r.skipped) {
        BOOST_TEST(applied == 0);
        if (++skipped >= 2) scale /= 2;
        BOOST_TEST(weights_of(*s) == weights, "weights changed in a skipped step");
        BOOST_TEST(moments_of(*s) == moments, "moments changed in a skipped step");
      } else {
        ++applied;
      }
    }
    BOOST_TEST(skipped >= 3U);
    BOOST_TEST(applied == 4);
    BOOST_TEST(weights_of(*s) != weights);
  }
}

BOOST_AUTO_TEST_CASE(the_loss_scale_doubles_after_a_window_of_good_steps) {
  const small_job job(two_blocks);
  auto s = job.open({"fp16.enabled=true", "fp16.initial_scale_power=4", "fp16.loss_scale_window=2"});
  std::vector<double> scales;
  for (int i = 0; i < 7; ++i) scales.push_back(step_of(*s).loss_scale);
  // The first loss-scale window begins one step before the run, as in DeepSpeed.
  const std::vector<double> wanted = {16, 16, 16, 32, 32, 64, 64};
  BOOST_TEST(scales == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_overflow_at_the_least_scale_ends_the_run) {
  const small_job job(two_blocks);
  auto s = job.open(
      {"fp16.enabled=true", "fp16.initial_scale_power=24", "fp16.min_loss_scale=16777216", "fp16.hysteresis=1"});
  const auto r = s->step();
  BOOST_TEST_REQUIRE(!r.has_value());
  BOOST_TEST((r.error().kind == core::error_kind::numeric));
  BOOST_TEST(contains(r.error().text, "fp16.min_loss_scale"), r.error().text);
  BOOST_TEST(s->step().error().text == r.error().text);
}

BOOST_AUTO_TEST_CASE(a_fixed_loss_scale_stays_and_changes_no_norm) {
  const small_job job(two_blocks);
  auto plain = job.open({"fp16.enabled=true", "fp16.loss_scale=1.0"});
  auto scaled = job.open({"fp16.enabled=true", "fp16.loss_scale=64.0"});
  const auto a = step_of(*plain), b = step_of(*scaled);
  BOOST_TEST(b.loss_scale == 64);
  BOOST_TEST(a.loss == b.loss);
  BOOST_TEST(a.grad_norm == b.grad_norm, boost::test_tools::tolerance(1e-2));
}

BOOST_AUTO_TEST_CASE(bf16_skips_an_overflow_if_told_to_check) {
  const poisoned_job job("transformer.h.1.mlp.c_fc.weight");
  auto s = job.open({"bf16.enabled=true", "parallel.data=2", "zero_optimization.stage=2"});
  const auto moments = moments_of(*s);
  const auto r = step_of(*s);
  BOOST_TEST(r.skipped);
  BOOST_TEST(r.loss_scale == 1);
  BOOST_TEST(moments_of(*s) == moments);
  BOOST_TEST(step_of(*s).skipped);
}

BOOST_AUTO_TEST_CASE(too_many_skipped_steps_end_the_run) {
  const poisoned_job job("transformer.h.1.mlp.c_fc.weight");
  auto s = job.open({"bf16.enabled=true", "parallel.data=2", "gradient_accumulation_steps=2"});
  for (int i = 1; i < 50; ++i) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(step_of(*s).skipped);
  const auto r = s->step();
  BOOST_TEST_REQUIRE(!r.has_value());
  BOOST_TEST(contains(r.error().text, "in 50 steps in a row; first seen in "), r.error().text);
  BOOST_TEST(contains(r.error().text, "block 1"), r.error().text);
}

BOOST_AUTO_TEST_CASE(bf16_ends_at_an_overflow_if_told_not_to_check) {
  const poisoned_job job("transformer.h.1.mlp.c_fc.weight");
  auto s = job.open({"bf16.enabled=true", "bf16.check_grad_overflow=false"});
  const auto r = s->step();
  BOOST_TEST_REQUIRE(!r.has_value());
  BOOST_TEST((r.error().kind == core::error_kind::numeric));
}

BOOST_AUTO_TEST_CASE(a_nan_loss_names_the_unit_where_it_began) {
  const poisoned_job job("transformer.h.1.mlp.c_fc.weight");
  for (const settings& set : std::vector<settings>{
           {"zero_optimization.stage=0"},
           {"zero_optimization.stage=2", "parallel.data=2"},
           {"zero_optimization.stage=3", "parallel.data=2", "zero_optimization.stage3_param_persistence_threshold=0",
            "zero_optimization.stage3_max_reuse_distance=0", "zero_optimization.stage3_prefetch_bucket_size=0"},
           {"zero_optimization.stage=1", "activation_checkpointing.enabled=true"}}) {
    auto s = job.open(set);
    const auto r = s->step();
    BOOST_TEST_REQUIRE(!r.has_value());
    BOOST_TEST((r.error().kind == core::error_kind::numeric));
    BOOST_TEST(contains(r.error().text, "the loss is nan; "), r.error().text);
    BOOST_TEST(contains(r.error().text, "block 1"), r.error().text);
    BOOST_TEST(!contains(r.error().text, "block 0"), r.error().text);
    BOOST_TEST(s->step().error().text == r.error().text);
  }
}

BOOST_AUTO_TEST_CASE(a_huge_learning_rate_ends_with_the_place_of_the_first_infinity) {
  const small_job job(two_blocks);
  auto s = job.open({"optimizer.params.lr=1.0e+30", "parallel.data=2", "zero_optimization.stage=3"});
  std::string error;
  for (int i = 0; i < 5 && error.empty(); ++i)
    if (const auto r = s->step(); !r) error = r.error().text;
  BOOST_TEST(contains(error, "the loss is "), error);
  BOOST_TEST(contains(error, "first seen in "), error);
}

BOOST_AUTO_TEST_CASE(reports_show_the_learning_rate_schedule) {
  const small_job job(two_blocks);
  auto s = job.open({"scheduler.type=WarmupDecayLR", "scheduler.params.warmup_max_lr=0.01",
                     "scheduler.params.warmup_num_steps=4", "scheduler.params.total_num_steps=8",
                     "scheduler.params.warmup_type=linear"});
  // The first update runs before the scheduler's first step, as in DeepSpeed.
  const std::vector<double> wanted = {0, 0, 0.0025, 0.005, 0.0075, 0.01, 0.0075, 0.005, 0.0025, 0};
  for (double lr : wanted)
    BOOST_TEST_CONTEXT("lr " << lr) BOOST_TEST(step_of(*s).lr == lr, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()
