// Tests saves as a host program sees them: asynchronous ones change no bit of the training, which states they contain,
// a disk that fails, and when older checkpoints are removed.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "checkpoint/commit/commit.hpp"
#include "tests/check_ok.hpp"
#include "tests/file_size_limit.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_save)

using namespace troupe;
using namespace troupe::tests;

namespace {

const settings three_stages_up{"zero_optimization={stage: 3, stage3_param_persistence_threshold: 0}",
                               "parallel.data=2"};

struct reported_saves {
  std::vector<actors::save_report> reports;
  actors::session_hooks hooks() {
    actors::session_hooks h;
    h.on_saved = [this](const actors::save_report& r) { reports.push_back(r); };
    return h;
  }
};

std::unique_ptr<actors::session> opened(const small_job& job, const settings& set, actors::session_hooks hooks,
                                        std::filesystem::path resume = {}) {
  actors::session_options options;
  options.config = job.config(set);
  options.hooks = std::move(hooks);
  options.resume = std::move(resume);
  auto s = actors::session::open(std::move(options));
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

std::vector<uint64_t> losses_of(actors::session& s, uint64_t steps) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < steps; ++i) out.push_back(std::bit_cast<uint64_t>(step_of(s).loss));
  return out;
}

/// Returns the steps of the checkpoints in `root`, ascending.
std::vector<uint64_t> steps_in(const std::filesystem::path& root) {
  std::vector<uint64_t> out;
  for (const auto& x : std::filesystem::directory_iterator(root))
    if (const auto step = checkpoint::step_of(x.path().filename().string())) out.push_back(*step);
  std::ranges::sort(out);
  return out;
}

checkpoint::manifest manifest_of(const std::filesystem::path& folder) {
  auto c = checkpoint::open_checkpoint(storage::real_files(), folder);
  if (!c) throw std::runtime_error(c.error().text);
  return c->content;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_asynchronous_save_changes_no_bit_and_saves_the_states_of_its_step) {
  const small_job job(tiny_gpt2_with_dropout);
  for (const settings& more : {settings{}, settings{"bf16.enabled=true"}, settings{"zero_optimization.stage=0"},
                               settings{"checkpoint.staging_bytes=65536"}}) {
    const auto set = three_stages_up + more;
    const auto alone = opened(job, set, {});
    const auto expected = losses_of(*alone, 6);
    reported_saves reported;
    const auto root = job.folder() / fmt::format("saved{}", std::hash<std::string>()(set.back()));
    const auto s = opened(job, set, reported.hooks());
    auto losses = losses_of(*s, 2);
    BOOST_REQUIRE(s->save({.root = root / "at_once"}).has_value());
    BOOST_REQUIRE(s->save_async({.root = root / "beside"}).has_value());
    BOOST_TEST(s->save_under_way());
    for (const uint64_t l : losses_of(*s, 4)) losses.push_back(l);
    BOOST_REQUIRE(s->wait_for_saves().has_value());
    BOOST_TEST(!s->save_under_way());
    BOOST_TEST(losses == expected, boost::test_tools::per_element());
    BOOST_REQUIRE(reported.reports.size() == 2U);
    for (const auto& r : reported.reports) BOOST_TEST((!r.failure && r.step == 2 && r.bytes > 0));
    // Both saves have equal tensors with equal digests, although one was taken while the next step ran.
    const auto at_once = manifest_of(root / "at_once"), beside = manifest_of(root / "beside");
    BOOST_TEST((at_once.tensors == beside.tensors));
    const auto again = opened(job, set, {}, root / "beside");
    BOOST_TEST(losses_of(*again, 4) == std::vector<uint64_t>(expected.begin() + 2, expected.end()),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(older_checkpoints_stay_until_a_loss_of_the_newest_weights_is_finite) {
  const small_job job;
  const auto root = job.folder() / "saved";
  const auto s = opened(job, three_stages_up + settings{"data.validation_fraction=0.1"}, {});
  const auto save = [&s](const std::filesystem::path& to) {
    BOOST_REQUIRE(s->save({.root = to, .keep_last = 1}).has_value());
  };
  const auto there = [](const std::filesystem::path& at, const std::vector<uint64_t>& steps) {
    BOOST_TEST(steps_in(at) == steps, boost::test_tools::per_element());
  };
  step_of(*s);
  save(root);
  step_of(*s);
  save(root);
  there(root, {1, 2});
  step_of(*s);
  there(root, {2});
  save(root);
  BOOST_REQUIRE(s->evaluate(1).has_value());
  there(root, {3});
  step_of(*s);
  save(root);
  save(job.folder() / "other");
  BOOST_REQUIRE(s->next_loss().has_value());
  there(root, {4});

  // The step that copies the states also proves them, before the save is committed or after.
  step_of(*s);
  BOOST_REQUIRE(s->save_async({.root = root, .keep_last = 1}).has_value());
  step_of(*s);
  BOOST_REQUIRE(s->wait_for_saves().has_value());
  there(root, {5});
}

BOOST_AUTO_TEST_CASE(a_session_that_ends_or_continues_elsewhere_before_the_proof_leaves_both_checkpoints) {
  const small_job job;
  const auto root = job.folder() / "saved";
  const auto to_step_2 = [&](const std::unique_ptr<actors::session>& s) {
    for (int i = 0; i < 2; ++i) {
      step_of(*s);
      BOOST_REQUIRE(s->save({.root = root, .keep_last = 1}).has_value());
    }
  };
  to_step_2(opened(job, three_stages_up, {}));
  BOOST_TEST(steps_in(root) == (std::vector<uint64_t>{1, 2}), boost::test_tools::per_element());

  std::filesystem::remove_all(root);
  const auto s = opened(job, three_stages_up, {});
  to_step_2(s);
  // The losses of the other states prove nothing about those that were saved as step 2.
  BOOST_REQUIRE(s->load(root / "step-00000001").has_value());
  for (int i = 0; i < 3; ++i) step_of(*s);
  BOOST_TEST(steps_in(root) == (std::vector<uint64_t>{1, 2}), boost::test_tools::per_element());
  BOOST_REQUIRE(s->save({.root = root, .keep_last = 1}).has_value());
  step_of(*s);
  BOOST_TEST(steps_in(root) == (std::vector<uint64_t>{4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(saves_of_broken_weights_remove_no_checkpoint) {
  const small_job job;
  const auto root = job.folder() / "saved";
  const settings skips{"bf16.enabled=true"};
  {
    const auto s = opened(job, skips, {});
    step_of(*s);
    BOOST_REQUIRE(s->save({.root = root, .keep_last = 2}).has_value());
    BOOST_REQUIRE(s->next_loss().has_value());
  }
  const auto s = opened(job, skips + settings{"optimizer.params.lr=1.0e+30"}, {}, root);
  for (int i = 0; i < 4; ++i) {
    step_of(*s);
    BOOST_REQUIRE(s->save({.root = root, .keep_last = 2}).has_value());
  }
  BOOST_TEST(!std::isfinite(s->next_loss().value()));
  BOOST_TEST(steps_in(root) == (std::vector<uint64_t>{1, 2, 3, 4, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(one_save_runs_at_a_time) {
  const small_job job;
  reported_saves reported;
  const auto s = opened(job, three_stages_up, reported.hooks());
  step_of(*s);
  BOOST_REQUIRE(s->save_async({.root = job.folder() / "saved"}).has_value());
  check_failed(s->save_async({.root = job.folder() / "saved"}), core::error_kind::limit, "step 1");
  // The call also waits for the first save to end.
  BOOST_REQUIRE(s->save({.root = job.folder() / "saved"}).has_value());
  BOOST_TEST(reported.reports.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_failed_save_is_reported_once_and_training_continues) {
  const small_job job;
  reported_saves reported;
  const auto root = job.folder() / "saved";
  const auto s = opened(job, three_stages_up, reported.hooks());
  const auto expected = losses_of(*opened(job, three_stages_up, {}), 5);
  auto losses = losses_of(*s, 1);
  BOOST_REQUIRE(s->save({.root = root}).has_value());
  {
    const file_size_limit small(20'000);
    BOOST_REQUIRE(s->save_async({.root = root}).has_value());
    for (const uint64_t l : losses_of(*s, 2)) losses.push_back(l);
    const auto ended = s->wait_for_saves();
    BOOST_TEST(reported.reports.size() == 2U);
    BOOST_REQUIRE(reported.reports.back().failure.has_value());
    BOOST_TEST(reported.reports.back().folder.empty());
    (void)ended;  // contains an error, unless a step has already reported it
  }
  BOOST_TEST(manifest_of(root).run.step == 1U);
  // The entries are the checkpoint of step 1 and `latest`.
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(root), {}) == 2);
  for (const uint64_t l : losses_of(*s, 2)) losses.push_back(l);
  BOOST_TEST(losses == expected, boost::test_tools::per_element());
  BOOST_REQUIRE(s->save({.root = root}).has_value());
  BOOST_TEST(manifest_of(root).run.step == 5U);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_session_waits_for_its_save) {
  const small_job job;
  const auto root = job.folder() / "saved";
  for (const bool with_step : {false, true}) {
    BOOST_TEST_INFO_SCOPE("with step " << with_step);
    auto s = opened(job, three_stages_up, {});
    step_of(*s);
    BOOST_REQUIRE(s->save_async({.root = root}).has_value());
    if (with_step) step_of(*s);
    s.reset();
    BOOST_TEST(manifest_of(root).run.step == 1U);
    std::filesystem::remove_all(root);
  }
}

BOOST_AUTO_TEST_CASE(a_stopped_run_commits_a_copied_save_and_drops_an_unfinished_copy) {
  const small_job job;
  const auto root = job.folder() / "saved";
  reported_saves reported;
  auto s = opened(job, three_stages_up, reported.hooks());
  step_of(*s);
  BOOST_REQUIRE(s->save_async({.root = root}).has_value());
  s->stop("enough");
  while (s->step().has_value()) {
  }
  BOOST_TEST(!s->save({.root = root}).has_value());
  BOOST_TEST(!s->save_under_way());
  s.reset();
  // The save must be committed or absent, never half-written; a save that had begun is reported once.
  if (std::filesystem::exists(root / "latest"))
    BOOST_TEST(manifest_of(root).run.step >= 1U);
  else
    BOOST_TEST((!std::filesystem::exists(root) || std::filesystem::is_empty(root)));
  BOOST_TEST(reported.reports.size() <= 1U);
}

BOOST_AUTO_TEST_SUITE_END()
