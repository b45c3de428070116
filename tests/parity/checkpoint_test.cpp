// Checks that a run saved with one number of ranks and ZeRO stage resumes with others: tensors are equal bit for bit,
// and at equal data degrees all later steps are too.
#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(checkpoint)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t before = 2, after = 2;

struct place {
  int ranks, stage;
};
settings at(const place& p) {  // uses twelve samples a step with every number of ranks
  return {fmt::format("parallel.data={}", p.ranks), fmt::format("zero_optimization.stage={}", p.stage),
          fmt::format("train_micro_batch_size_per_gpu={}", 12 / p.ranks),
          "zero_optimization.stage3_param_persistence_threshold=0", "zero_optimization.sub_group_size=4096"};
}
std::vector<place> places() {
  std::vector<place> out;
  for (int ranks : {1, 2, 3, 4})
    for (int stage : {0, 1, 2, 3}) out.push_back({ranks, stage});
  return out;
}

std::unique_ptr<actors::session> resumed(const small_job& job, const settings& set, const std::filesystem::path& from) {
  auto s = actors::session::open({.config = job.config(set), .resume = from});
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

struct tensors {
  std::vector<std::vector<float>> weights, first, second;
};
tensors tensors_of(const actors::session& s) {
  tensors out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) {
    out.weights.push_back(parameter_of(s, q));
    out.first.push_back(moment_of(s, q, 0));
    out.second.push_back(moment_of(s, q, 1));
  }
  return out;
}
void check_same_tensors(const tensors& a, const tensors& b) {
  BOOST_TEST(same_bits(a.weights, b.weights), "weights differ");
  BOOST_TEST(same_bits(a.first, b.first), "first moments differ");
  BOOST_TEST(same_bits(a.second, b.second), "second moments differ");
}

std::vector<double> losses_of(actors::session& s, uint64_t steps) {
  std::vector<double> out;
  for (uint64_t i = 0; i < steps; ++i) out.push_back(step_of(s).loss);
  return out;
}

/// Returns the indices of the configurations that load the checkpoint of configuration `i` of `n`: itself and three
/// others, so that all pairs of rank counts and all pairs of stages occur. If TROUPE_CASES is set, as in `make soak`,
/// returns all `n`.
std::vector<size_t> loaders_of(size_t i, size_t n) {
  if (std::getenv("TROUPE_CASES") == nullptr) return {i, (i + 5) % n, (i + 10) % n, (i + 15) % n};
  std::vector<size_t> all(n);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

void check_elastic(const small_job& job, const settings& common, double tolerance) {
  const auto all = places();
  for (size_t i = 0; i < all.size(); ++i) {
    const settings mine = common + at(all[i]);
    const auto folder = job.folder() / fmt::format("saved-{}{}", i, common.size());
    auto s = job.open(mine);
    losses_of(*s, before);
    const auto saved = s->save({.root = folder});
    BOOST_TEST_REQUIRE(saved.has_value(), (saved ? "" : saved.error().text));
    const tensors then = tensors_of(*s);
    const auto uninterrupted = losses_of(*s, after);
    for (size_t k : loaders_of(i, all.size()))
      BOOST_TEST_CONTEXT(text_of(mine) << ", then " << all[k].ranks << " ranks, stage " << all[k].stage) {
        auto t = resumed(job, common + at(all[k]), folder);
        BOOST_TEST(t->steps_done() == before);
        check_same_tensors(tensors_of(*t), then);
        const auto got = losses_of(*t, after);
        for (uint64_t n = 0; n < after; ++n)
          if (all[k].ranks == all[i].ranks)
            BOOST_TEST(std::bit_cast<uint64_t>(got[n]) == std::bit_cast<uint64_t>(uninterrupted[n]));
          else
            BOOST_TEST(std::abs(got[n] - uninterrupted[n]) < tolerance);
      }
  }
}

std::string refusal(const small_job& job, const settings& set, const std::filesystem::path& from) {
  const auto s = actors::session::open({.config = job.config(set), .resume = from});
  return s ? "accepted" : s.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_pairs_of_ranks_and_all_pairs_of_stages_are_tried) {
  const auto all = places();
  std::set<std::pair<int, int>> ranks, stages;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k : loaders_of(i, all.size())) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      ranks.insert({all[i].ranks, all[k].ranks});
      stages.insert({all[i].stage, all[k].stage});
    }
  BOOST_TEST(ranks.size() == 16U);
  BOOST_TEST(stages.size() == 16U);
}

BOOST_AUTO_TEST_CASE(any_ranks_and_stage_load_the_checkpoints_of_any_others_in_fp32) {
  check_elastic(small_job(tiny_gpt2_with_dropout), {}, 1e-5);
}

BOOST_AUTO_TEST_CASE(any_ranks_and_stage_load_the_checkpoints_of_any_others_in_bf16) {
  check_elastic(small_job(tiny_llama), {"bf16.enabled=true"}, 2e-2);
}

BOOST_AUTO_TEST_CASE(every_optimizer_frozen_parameters_and_the_loss_scale_resume) {
  const small_job job(tiny_gpt2 + "parameter_groups: [{match: 'h\\.1\\.', trainable: false}]\n");
  for (const char* type : {"Muon", "Lamb", "Lion", "SGD", "Adagrad"}) BOOST_TEST_CONTEXT(type) {
      const settings common = {std::string("optimizer.type=") + type, "fp16.enabled=true", "optimizer.params.lr=0.001",
                               "fp16.initial_scale_power=8", "fp16.loss_scale_window=3"};
      auto s = job.open(common + at({2, 3}));
      losses_of(*s, 4);
      const auto saved =
          s->save({.root = job.folder() / type, .configuration = "configuration", .client_state = R"({"mine": 1})"});
      BOOST_TEST_REQUIRE(saved.has_value(), (saved ? "" : saved.error().text));
      auto t = resumed(job, common + at({2, 1}), *saved);
      BOOST_TEST(t->client_state() == R"({"mine": 1})");
      BOOST_TEST(t->configuration_before() == "configuration");
      for (int i = 0; i < 3; ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        const auto a = step_of(*s), b = step_of(*t);
        BOOST_TEST(std::bit_cast<uint64_t>(a.loss) == std::bit_cast<uint64_t>(b.loss));
        BOOST_TEST(a.loss_scale == b.loss_scale);
        BOOST_TEST(a.step == b.step);
      }
      check_same_tensors(tensors_of(*s), tensors_of(*t));
    }
}

BOOST_AUTO_TEST_CASE(frozen_parameters_may_be_trained_after_a_resume_and_trained_ones_frozen) {
  const small_job all(tiny_gpt2), some(tiny_gpt2 + "parameter_groups: [{match: 'h\\.', trainable: false}]\n");
  auto s = some.open(at({2, 3}));
  losses_of(*s, 1);
  const auto saved = s->save({.root = some.folder() / "frozen"});
  BOOST_TEST_REQUIRE(saved.has_value());
  auto t = resumed(all, at({3, 2}), *saved);
  check_same_tensors(tensors_of(*t), tensors_of(*s));
  losses_of(*t, 1);
  const auto again = t->save({.root = all.folder() / "trained"});
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(same_bits(tensors_of(*resumed(some, at({1, 0}), *again)).weights, tensors_of(*t).weights));
}

BOOST_AUTO_TEST_CASE(frozen_parameters_that_checkpoints_leave_out_are_those_of_the_runs_start) {
  const small_job job(tiny_gpt2 + "parameter_groups: [{match: 'h\\.', trainable: false}]\n");
  const settings slim = {"checkpoint.exclude_frozen_parameters=true"};
  auto s = job.open(at({2, 3}) + slim);
  losses_of(*s, 2);
  const auto saved = s->save({.root = job.folder() / "slim", .exclude_frozen_parameters = true});
  BOOST_TEST_REQUIRE(saved.has_value());
  auto t = resumed(job, at({3, 2}) + slim, *saved);
  check_same_tensors(tensors_of(*t), tensors_of(*s));
  const auto has = [](const std::string& text, const char* what) {
    BOOST_TEST(text.find(what) != std::string::npos, text);
  };
  // The frozen parameters are missing in the checkpoint, and another seed would initialise them differently, so it is
  // refused even if another order of samples is permitted.
  const auto other = actors::session::open(
      {.config = job.config(at({2, 3}) + slim + settings{"seed=8"}), .resume = *saved, .load = {.changed_seed = true}});
  BOOST_TEST_REQUIRE(!other.has_value());
  has(other.error().text, "(checkpoint.exclude_frozen_parameters), and seed is 8, was 7; set checkpoint.load.strict");
  has(refusal(job, at({2, 3}), *saved), "is missing in the checkpoint");
}

BOOST_AUTO_TEST_CASE(checkpoints_that_do_not_fit_are_refused_by_name) {
  const small_job job(tiny_gpt2), other(tiny_llama);
  auto s = job.open(at({2, 3}));
  losses_of(*s, 1);
  const auto saved = s->save({.root = job.folder() / "saved"});
  BOOST_TEST_REQUIRE(saved.has_value());
  const auto has = [](const std::string& text, const char* what) {
    BOOST_TEST(text.find(what) != std::string::npos, text);
  };
  has(refusal(other, at({2, 3}), *saved), "model_type is of another family than this run's model");
  has(refusal(job, at({2, 3}) + settings{"seed=8"}, *saved), "seed is 8, was 7");
  has(refusal(job, at({2, 3}) + settings{"train_micro_batch_size_per_gpu=2"}, *saved), "train_batch_size is 4, was 12");
  has(refusal(job, at({2, 3}) + settings{"optimizer.type=Muon"}, *saved), "momentum_buffer");
  has(refusal(job, at({2, 3}), job.folder() / "nowhere"), "nowhere");
}

BOOST_AUTO_TEST_SUITE_END()
