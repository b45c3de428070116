// Tests samples that are left out of training, and a run that returns to a checkpoint after a spike of its loss: it has
// the bits of a run that was resumed by hand from that checkpoint without the samples.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <map>

#include "tests/small_job.hpp"
#include "tests/surprising_text.hpp"

BOOST_AUTO_TEST_SUITE(session_spike)

using namespace troupe;
using namespace troupe::tests;

namespace {

using core::left_out_steps;

const settings two_ranks{"zero_optimization={stage: 3, stage3_param_persistence_threshold: 0}", "parallel.data=2"};

std::unique_ptr<actors::session> opened(const small_job& job, const settings& set, std::filesystem::path resume = {},
                                        actors::session_hooks hooks = {}) {
  actors::session_options options;
  options.config = job.config(set);
  options.resume = std::move(resume);
  options.hooks = std::move(hooks);
  auto s = actors::session::open(std::move(options));
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

/// Maps each step to the bits of its loss; a step that is repeated has its last loss.
using losses_by_step = std::map<uint64_t, uint64_t>;

/// Trains until `steps` steps are done and returns their losses; saves every fourth step in `root`, unless it is empty.
losses_by_step run_to(actors::session& s, uint64_t steps, const std::filesystem::path& root = {},
                      std::vector<actors::loss_spike>* spikes = nullptr) {
  losses_by_step out;
  while (s.steps_done() < steps) {
    const auto r = step_of(s);
    if (r.spike) {
      if (spikes != nullptr) spikes->push_back(*r.spike);
      continue;
    }
    out[r.step] = std::bit_cast<uint64_t>(r.loss);
    if (root.empty() || r.step % 4 != 0) continue;
    if (s.save_under_way())
      if (auto ok = s.wait_for_saves(); !ok) throw std::runtime_error(ok.error().text);
    if (auto ok = s.save_async({.root = root}); !ok) throw std::runtime_error(ok.error().text);
  }
  return out;
}

/// Trains until a step spikes and returns the spike.
actors::loss_spike next_spike(actors::session& s, const std::filesystem::path& root) {
  for (int i = 0; i < 100; ++i) {
    const auto r = step_of(s);
    if (r.spike) return *r.spike;
    if (root.empty() || r.step % 4 != 0) continue;
    if (auto ok = s.save({.root = root}); !ok) throw std::runtime_error(ok.error().text);
  }
  throw std::runtime_error("no loss has spiked");
}

losses_by_step behind(const losses_by_step& all, uint64_t step) { return {all.upper_bound(step), all.end()}; }

std::filesystem::path folder_of(const std::filesystem::path& root, uint64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08llu", static_cast<unsigned long long>(step));
  return root / name;
}

std::string skip_of(const std::vector<actors::loss_spike>& spikes) {
  std::string out = "data.skip=[";
  for (const auto& s : spikes) out += fmt::format("{{steps: {}-{}}}, ", s.first, s.last);
  return out + "]";
}

const settings watched{"on_spike={action: skip, factor: 3, min_steps: 8, window: 8}", "checkpoint.every_steps=4"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_leaves_samples_out_from_the_start_and_where_it_resumes) {
  const small_job job(tiny_gpt2_with_dropout);
  const auto root = job.folder() / "saved";
  const settings skip{"data.skip=[{steps: 3-4}, {steps: 6}]"};
  auto plain = opened(job, two_ranks);
  const auto undisturbed = run_to(*plain, 2);
  BOOST_REQUIRE(plain->save({.root = root}).has_value());
  const auto whole = opened(job, two_ranks + skip);
  auto wanted = run_to(*whole, 5);
  BOOST_REQUIRE(whole->save({.root = root}).has_value());
  for (const auto& [step, loss] : run_to(*whole, 8)) wanted[step] = loss;
  BOOST_TEST((whole->left_out() == std::vector<left_out_steps>{{3, 4, false, {{8, 16}}}, {6, 6, false, {{28, 32}}}}));
  BOOST_TEST((losses_by_step(wanted.begin(), wanted.find(3)) == undisturbed));
  BOOST_TEST(wanted.at(3) != run_to(*plain, 3).at(3));

  const auto from_2 = opened(job, two_ranks + skip, folder_of(root, 2));
  BOOST_TEST((run_to(*from_2, 8) == behind(wanted, 2)));
  const auto from_5 = opened(job, two_ranks + skip, folder_of(root, 5));
  BOOST_TEST((run_to(*from_5, 8) == behind(wanted, 5)));
  BOOST_TEST((from_5->left_out() == whole->left_out()));
}

BOOST_AUTO_TEST_CASE(the_samples_are_the_same_at_all_degrees) {
  const small_job job;
  const settings skip{"data.skip=[{steps: 2-3}]"};
  const auto loss_of = [&](const settings& set) { return step_of(*opened(job, set + skip)).loss; };
  const auto third = [&](const settings& set) {
    const auto s = opened(job, set + skip);
    return std::bit_cast<double>(run_to(*s, 3).at(3));
  };
  const double wanted = third(two_ranks);
  BOOST_TEST(wanted != loss_of(two_ranks));
  for (const settings& set : {settings{"gradient_accumulation_steps=2"}, settings{"train_micro_batch_size_per_gpu=4"},
                              settings{"parallel.pipeline=2", "gradient_accumulation_steps=2"}})
    BOOST_TEST(third(set) == wanted, boost::test_tools::tolerance(1e-5));
}

BOOST_AUTO_TEST_CASE(a_changed_list_is_applied_or_refused_where_a_run_resumes) {
  const small_job job;
  const auto root = job.folder() / "saved";
  const auto s = opened(job, two_ranks + settings{"data.skip=[{steps: 2}]"});
  run_to(*s, 4);
  BOOST_REQUIRE(s->save({.root = root}).has_value());
  const auto tried = [&](const char* list) {
    actors::session_options options;
    options.config = job.config(two_ranks + settings{std::string("data.skip=") + list});
    options.resume = root;
    const auto again = actors::session::open(std::move(options));
    return again ? fmt::to_string((*again)->left_out().back().samples.front().begin) : again.error().text;
  };
  BOOST_TEST(tried("[{steps: 2}]") == "4");
  // Step 2 is left out, so the sixth step trains on the samples of the seventh.
  BOOST_TEST(tried("[{steps: 2}, {steps: 6}]") == "24");
  BOOST_TEST(tried("[]").find("data.skip: the samples of step 2, which this run left out before step 5") !=
             std::string::npos);
  BOOST_TEST(
      tried("[{steps: 2}, {steps: 4}]").find("wanted steps after step 4, which the run has reached, got step 4") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_run_that_went_back_has_the_bits_of_one_resumed_by_hand_without_the_samples) {
  const small_job job(tiny_gpt2, surprising_text());
  size_t n = 0;
  for (const settings& more :
       {settings{"zero_optimization.stage=0"}, two_ranks + settings{"gradient_accumulation_steps=2"},
        settings{"parallel.pipeline=2", "gradient_accumulation_steps=2", "train_micro_batch_size_per_gpu=1"},
        two_ranks + settings{"bf16.enabled=true"},
        two_ranks + settings{"zero_optimization.offload_optimizer={device: nvme, nvme_path: " +
                             (job.folder() / "swap").string() + "}"}}) {
    const auto root = job.folder() / fmt::format("saved{}", n++);
    std::vector<actors::loss_spike> spikes;
    auto s = opened(job, more + watched);
    const auto got = run_to(*s, 40, root, &spikes);
    BOOST_REQUIRE_MESSAGE(!spikes.empty(), more.front());
    BOOST_TEST(got.size() == 40U);
    const auto& first = spikes.front();
    BOOST_TEST(first.back_to == (first.step - 1) / 4 * 4);
    BOOST_TEST(first.first == first.back_to + 1);
    BOOST_TEST(first.last == first.step);
    BOOST_TEST(first.loss > 3 * first.usual);
    BOOST_TEST(s->left_out().size() == spikes.size());
    // The folder of the earliest checkpoint to which the run returned is unchanged, because no later spike went back
    // further.
    const auto earliest = std::ranges::min_element(spikes, {}, &actors::loss_spike::back_to)->back_to;
    BOOST_REQUIRE(earliest == first.back_to);
    const auto weights = parameter_of(*s, 1);
    s.reset();
    const auto by_hand = opened(job, more + settings{skip_of(spikes)}, folder_of(root, first.back_to));
    BOOST_TEST((run_to(*by_hand, 40) == behind(got, first.back_to)));
    BOOST_TEST((parameter_of(*by_hand, 1) == weights));
  }
}

BOOST_AUTO_TEST_CASE(a_watched_run_that_resumes_spikes_where_it_would_have_undisturbed) {
  const small_job job(tiny_gpt2, surprising_text());
  const auto root = job.folder() / "undisturbed", other = job.folder() / "ended";
  std::vector<actors::loss_spike> wanted_spikes, spikes;
  const auto wanted = run_to(*opened(job, two_ranks + watched), 40, root, &wanted_spikes);
  BOOST_REQUIRE(wanted_spikes.size() >= 2U);
  losses_by_step got;
  // Each session ends as if it was killed, so the next one repeats the steps that were not saved.
  for (const uint64_t until : {11U, 19U, 30U, 40U}) {
    BOOST_TEST_INFO_SCOPE("until " << until);
    const bool begins = got.empty();
    const auto s = opened(job, two_ranks + watched, begins ? std::filesystem::path() : other);
    for (const auto& [step, loss] : run_to(*s, until, other, &spikes)) got[step] = loss;
    BOOST_REQUIRE(s->wait_for_saves().has_value());
    if (until == 40) BOOST_TEST(s->left_out().size() == wanted_spikes.size());
  }
  BOOST_TEST((got == wanted));
}

BOOST_AUTO_TEST_CASE(a_run_may_go_back_further_and_leave_out_what_lies_ahead) {
  const small_job job(tiny_gpt2, surprising_text());
  const auto root = job.folder() / "saved";
  const auto s = opened(
      job,
      two_ranks + settings{"on_spike={action: skip, factor: 3, min_steps: 8, window: 8, back_steps: 6, ahead_steps: 2}",
                           "checkpoint.every_steps=4"});
  const auto spike = next_spike(*s, root);
  BOOST_TEST(spike.back_to == (spike.step - 6) / 4 * 4);
  BOOST_TEST(spike.last == spike.step + 2);
  BOOST_TEST(spike.samples == 4 * (spike.last - spike.back_to));
  BOOST_TEST(s->steps_done() == spike.back_to);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_whose_damage_a_load_meets_is_passed_over_for_the_one_before) {
  const small_job job(tiny_gpt2, surprising_text());
  const auto first = next_spike(*opened(job, two_ranks + watched), job.folder() / "first");
  BOOST_REQUIRE(first.back_to >= 12U);
  const auto root = job.folder() / "saved";
  std::string said;
  actors::session_hooks hooks;
  hooks.on_warning = [&said](const std::string& line) { said += line + "\n"; };
  const auto s = opened(job, two_ranks + watched, {}, std::move(hooks));
  run_to(*s, first.back_to, root);
  BOOST_REQUIRE(s->wait_for_saves().has_value());
  {
    std::fstream file(folder_of(root, first.back_to) / "shard-00001.bin",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 100);
    file.put('!');
  }
  const auto spike = next_spike(*s, {});
  BOOST_TEST(spike.step == first.step);
  BOOST_TEST(spike.back_to == first.back_to - 4);
  BOOST_TEST(said.find(fmt::format("on_spike: the checkpoint of step {} cannot be loaded: ", first.back_to)) !=
                 std::string::npos,
             said);
  const auto by_hand = opened(job, two_ranks + settings{skip_of({spike})}, folder_of(root, spike.back_to));
  BOOST_TEST((run_to(*s, first.step) == run_to(*by_hand, first.step)));
  BOOST_TEST(s->may_save());
}

BOOST_AUTO_TEST_CASE(a_resumed_run_may_go_back_behind_the_checkpoint_that_it_resumed_from) {
  const small_job job(tiny_gpt2, surprising_text());
  const auto root = job.folder() / "saved";
  auto whole = opened(job, two_ranks + watched);
  const auto first = next_spike(*whole, root);
  whole.reset();
  const uint64_t from = first.back_to, step = first.step;
  BOOST_REQUIRE(from >= 12U);
  const settings further{
      fmt::format("on_spike={{action: skip, factor: 3, min_steps: 8, window: 8, back_steps: {}}}", step - from + 1)};
  const auto s = opened(job, two_ranks + watched + further, folder_of(root, from));
  const auto spike = next_spike(*s, {});
  BOOST_TEST(spike.step == step);
  BOOST_TEST(spike.back_to == from - 4);
  BOOST_TEST(spike.folder == folder_of(root, from - 4));
  const auto by_hand = opened(job, two_ranks + settings{skip_of({spike})}, folder_of(root, from - 4));
  BOOST_TEST((run_to(*s, from) == run_to(*by_hand, from)));
}

BOOST_AUTO_TEST_CASE(a_stopped_run_says_why_and_leaves_the_last_checkpoint) {
  const small_job job(tiny_gpt2, surprising_text());
  const auto root = job.folder() / "saved";
  const auto s = opened(job, two_ranks + settings{"on_spike={action: stop, min_steps: 8, window: 8}"});
  std::string why;
  uint64_t step = 0;
  while (why.empty() && step < 60) {
    const auto r = s->step();
    if (!r) {
      why = r.error().text;
      break;
    }
    step = r->step;
    if (step % 4 == 0) BOOST_REQUIRE(s->save({.root = root}).has_value());
  }
  BOOST_TEST(why.starts_with(fmt::format("the loss of step {} is ", step + 1)), why);
  BOOST_TEST(why.find(fmt::format("the run ends (on_spike.action: stop); the newest checkpoint, of step {}, is '",
                                  step / 4 * 4)) != std::string::npos,
             why);
  BOOST_TEST(!s->may_save());
  BOOST_TEST(!s->step().has_value());
  BOOST_TEST(opened(job, two_ranks, root)->steps_done() == step / 4 * 4);
}

BOOST_AUTO_TEST_CASE(without_a_saved_state_a_spike_ends_the_run_by_name) {
  const small_job job(tiny_gpt2, surprising_text());
  const auto s = opened(job, two_ranks + watched);
  std::string why;
  while (why.empty() && s->steps_done() < 60)
    if (const auto r = s->step(); !r) why = r.error().text;
  BOOST_TEST(why.find("on_spike.action: skip needs a saved state of step ") != std::string::npos, why);
  BOOST_TEST(why.find("there is no checkpoint of this run") != std::string::npos, why);
}

// The learning rate destroys the weights: the loss is not finite, but no sample is the cause.
BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_is_a_spike_and_going_back_has_a_limit) {
  const small_job job;
  for (const settings& more : {settings{}, settings{"bf16.enabled=true"}, settings{"fp16.enabled=true"}}) {
    const auto root = job.folder() / ("saved" + (more.empty() ? "" : more.front()));
    const auto s = opened(job, two_ranks + more +
                                   settings{"on_spike={action: skip, times_max: 2}", "checkpoint.every_steps=1",
                                            "optimizer.params.lr=1e36"});
    std::vector<actors::loss_spike> spikes;
    step_of(*s);
    BOOST_REQUIRE(s->save({.root = root}).has_value());
    std::string why;
    for (int i = 0; i < 20 && why.empty(); ++i) {
      const auto r = s->step();
      if (!r) why = r.error().text;
      if (r && r->spike) spikes.push_back(*r->spike);
    }
    BOOST_TEST(
        why.find("the run has gone back 2 times already, as often as on_spike.times_max allows") != std::string::npos,
        why);
    BOOST_REQUIRE(spikes.size() == 2U);
    for (const auto& x : spikes) BOOST_TEST((!std::isfinite(x.loss) && x.back_to == 1));
  }
}

BOOST_AUTO_TEST_CASE(a_host_hears_of_a_spike_instead_of_a_step) {
  const small_job job(tiny_gpt2, surprising_text());
  std::vector<uint64_t> steps;
  std::vector<actors::loss_spike> reported;
  actors::session_hooks hooks;
  hooks.on_step = [&](const actors::step_report& r) { steps.push_back(r.step); };
  hooks.on_spike = [&](const actors::loss_spike& x) { reported.push_back(x); };
  const auto s = opened(job, two_ranks + watched, {}, hooks);
  const auto told = next_spike(*s, job.folder() / "saved");
  BOOST_REQUIRE(reported.size() == 1U);
  BOOST_TEST(reported[0].step == told.step);
  BOOST_TEST(steps.size() == reported[0].step - 1);
}

BOOST_AUTO_TEST_CASE(a_change_of_degrees_keeps_what_is_left_out) {
  const small_job job;
  const settings skip{"data.skip=[{steps: 2}, {steps: 5}]"};
  const auto s = opened(job, two_ranks + skip);
  run_to(*s, 3);
  const auto before = s->left_out();
  BOOST_REQUIRE(
      s->change_degrees(job.config(skip + settings{"parallel.data=1", "gradient_accumulation_steps=2"})).has_value());
  BOOST_TEST((s->left_out() == before));
  const auto whole = opened(job, two_ranks + skip);
  const double wanted = std::bit_cast<double>(run_to(*whole, 6).at(6));
  BOOST_TEST(std::bit_cast<double>(run_to(*s, 6).at(6)) == wanted, boost::test_tools::tolerance(1e-4));
}

BOOST_AUTO_TEST_SUITE_END()
