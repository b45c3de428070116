// Tests session::load on a session that has already trained: afterwards it has the bits of a session that is opened
// with that checkpoint, at any ZeRO stage, precision and memory tier; and a refused load changes nothing.
#include <fmt/format.h>

#include "actors/session/state_access.hpp"
#include "checkpoint/commit/commit.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(live_load)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string zero = "zero_optimization.";

settings two_ranks(int stage) {
  return {"parallel.data=2", fmt::format("{}stage={}", zero, stage), zero + "sub_group_size=4096",
          zero + "stage3_param_persistence_threshold=0"};
}

settings on_disk(const small_job& job, const std::string& folder) {
  const auto path = (job.folder() / folder).string();
  std::filesystem::create_directories(path);
  return {zero + "offload_optimizer={device: nvme, nvme_path: " + path + "}",
          zero + "offload_param={device: nvme, nvme_path: " + path + ", max_in_cpu: 4096}"};
}

struct opened_session {
  std::unique_ptr<actors::session> session;
  std::shared_ptr<std::vector<std::string>> warnings = std::make_shared<std::vector<std::string>>();

  [[nodiscard]] bool said(const std::string& what) const {
    return std::any_of(warnings->begin(), warnings->end(),
                       [&](const std::string& line) { return line.find(what) != std::string::npos; });
  }
};

opened_session open(const small_job& job, const settings& set, const std::filesystem::path& resume = {},
                    actors::load_options load = {}) {
  opened_session out;
  actors::session_options o;
  o.config = job.config(set);
  o.hooks.on_warning = [w = out.warnings](const std::string& line) { w->push_back(line); };
  o.resume = resume;
  o.load = std::move(load);
  auto s = actors::session::open(std::move(o));
  if (!s) throw std::runtime_error(s.error().text);
  out.session = std::move(*s);
  return out;
}

std::filesystem::path save(actors::session& s, actors::save_request request) {
  auto did = s.save(request);
  if (!did) throw std::runtime_error(did.error().text);
  return *did;
}

void load(actors::session& s, const std::filesystem::path& from, actors::load_options options = {}) {
  const auto did = s.load(from, std::move(options));
  if (!did) throw std::runtime_error(did.error().text);
}

void train_on(actors::session& s, int steps) {
  for (int i = 0; i < steps; ++i) step_of(s);
}

/// Trains two steps with both sessions and compares losses and states bit by bit.
void check_alike(actors::session& a, actors::session& b) {
  BOOST_TEST(a.steps_done() == b.steps_done());
  const auto x = result_of(a, 2), y = result_of(b, 2);
  BOOST_TEST(x.losses == y.losses, boost::test_tools::per_element());
  BOOST_TEST(x.norms == y.norms, boost::test_tools::per_element());
  BOOST_TEST(same_bits(x.weights, y.weights), "weights differ");
  BOOST_TEST(same_bits(x.first, y.first), "first moments differ");
  BOOST_TEST(same_bits(x.second, y.second), "second moments differ");
}

template <class T>
void check_refused(const core::result<T>& did, core::error_kind kind, const std::string& text) {
  BOOST_TEST_REQUIRE(!did.has_value());
  BOOST_TEST((did.error().kind == kind));
  BOOST_TEST(did.error().text.find(text) != std::string::npos, did.error().text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_that_loads_continues_with_the_bits_of_one_that_is_opened_there) {
  const small_job job(tiny_gpt2_with_dropout);
  std::vector<settings> all;
  for (int stage = 0; stage <= 3; ++stage) all.push_back(two_ranks(stage));
  all.push_back(two_ranks(3) + settings{"bf16.enabled=true"});
  all.push_back(two_ranks(1) + settings{"fp16.enabled=true", "fp16.initial_scale_power=8", "fp16.loss_scale_window=2"});
  all.push_back(two_ranks(2) + settings{"optimizer.type=Adagrad"});
  for (size_t i = 0; i < all.size(); ++i) BOOST_TEST_CONTEXT(text_of(all[i])) {
      const auto root = job.folder() / fmt::format("saved-{}", i);
      auto s = open(job, all[i]);
      train_on(*s.session, 2);
      const auto folder = save(*s.session, {.root = root, .client_state = R"({"mine": 1})"});
      train_on(*s.session, 3);
      const auto did = s.session->load(root);
      BOOST_TEST_REQUIRE(did.has_value(), (did ? "" : did.error().text));
      BOOST_TEST(did->folder == folder);
      BOOST_TEST(did->client_state == R"({"mine": 1})");
      BOOST_TEST(s.session->client_state() == did->client_state);
      check_refused(s.session->states().get_full_grad("transformer.wte.weight"), core::error_kind::bad_input,
                    "no step has been done yet");
      auto fresh = open(job, all[i], root);
      check_alike(*s.session, *fresh.session);
    }
}

BOOST_AUTO_TEST_CASE(states_in_files_are_loaded_and_deferred_gradients_are_dropped) {
  const small_job job(tiny_gpt2);
  const settings late = {zero + "offload_optimizer.device=cpu", zero + "zenflow.topk_ratio=0.2",
                         zero + "zenflow.select_strategy=step", zero + "zenflow.select_interval=6",
                         zero + "zenflow.update_interval=3",    zero + "zenflow.full_warm_up_rounds=0"};
  const std::pair<settings, settings> pairs[] = {
      {two_ranks(3) + on_disk(job, "swap"), two_ranks(3) + on_disk(job, "swap-of-fresh")},
      {two_ranks(3) + settings{"bf16.enabled=true"} + on_disk(job, "swap16"),
       two_ranks(3) + settings{"bf16.enabled=true"} + on_disk(job, "swap16-of-fresh")},
      {two_ranks(2) + late, two_ranks(2) + late}};
  for (size_t i = 0; i < std::size(pairs); ++i) BOOST_TEST_CONTEXT(text_of(pairs[i].first)) {
      auto s = open(job, pairs[i].first);
      train_on(*s.session, 3);
      const auto root = job.folder() / fmt::format("tier-{}", i);
      save(*s.session, {.root = root});
      train_on(*s.session, 2);
      load(*s.session, root);
      auto fresh = open(job, pairs[i].second, root);
      check_alike(*s.session, *fresh.session);
    }
}

BOOST_AUTO_TEST_CASE(options_choose_the_same_parts_as_when_a_session_is_opened) {
  const small_job job(tiny_gpt2);
  const auto set = two_ranks(3) + settings{"bf16.enabled=true",
                                           "scheduler={type: WarmupLR, params: {warmup_min_lr: 1.0e-4, warmup_max_lr: "
                                           "1.0e-2, warmup_num_steps: 50, warmup_type: linear}}"};
  auto s = open(job, set);
  train_on(*s.session, 2);
  const auto root = job.folder() / "saved";
  save(*s.session, {.root = root, .client_state = "5"});
  const actors::load_options all[] = {{.load_optimizer_states = false},
                                      {.load_lr_scheduler_states = false},
                                      {.load_module_only = true},
                                      {.load_from_fp32_weights = false}};
  for (size_t i = 0; i < std::size(all); ++i) BOOST_TEST_CONTEXT("options " << i) {
      train_on(*s.session, 1);
      load(*s.session, root, all[i]);
      BOOST_TEST(s.session->client_state() == (all[i].load_module_only ? "null" : "5"));
      auto fresh = open(job, set, root, all[i]);
      check_alike(*s.session, *fresh.session);
    }
}

BOOST_AUTO_TEST_CASE(parameters_that_the_checkpoint_lacks_keep_their_values) {
  const small_job deeper(tiny_gpt2);
  const small_job shallow(
      "model: {model_type: gpt2, n_layer: 5, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
      "attn_pdrop: 0, resid_pdrop: 0}\n");
  auto other = open(shallow, two_ranks(1));
  train_on(*other.session, 2);
  const auto root = deeper.folder() / "shallow";
  save(*other.session, {.root = root});
  auto s = open(deeper, two_ranks(3));
  train_on(*s.session, 3);
  const auto number_of = [](const actors::session& of, const std::string& name) {
    uint32_t q = 0;
    while (of.table().parameters[q].name != name) ++q;
    return q;
  };
  const uint32_t lacking = number_of(*s.session, "transformer.h.5.mlp.c_fc.weight");
  const auto weights = parameter_of(*s.session, lacking), moments = moment_of(*s.session, lacking, 0);
  check_refused(s.session->load(root), core::error_kind::mismatch, "transformer.h.5.");
  load(*s.session, root, {.load_module_strict = false});
  BOOST_TEST(same_bits({parameter_of(*s.session, lacking), moment_of(*s.session, lacking, 0)}, {weights, moments}));
  BOOST_TEST(same_bits({parameter_of(*s.session, 0)}, {parameter_of(*other.session, 0)}));
  BOOST_TEST(s.said("keep their present values, as transformer.h.5."));
  BOOST_TEST(s.session->steps_done() == 2U);
}

BOOST_AUTO_TEST_CASE(a_save_that_waits_is_finished_before_a_load) {
  const small_job job(tiny_gpt2);
  auto s = open(job, two_ranks(3));
  train_on(*s.session, 1);
  const auto first = save(*s.session, {.root = job.folder() / "saved"});
  train_on(*s.session, 1);
  BOOST_TEST_REQUIRE(s.session->save_async({.root = job.folder() / "saved"}).has_value());
  load(*s.session, first);
  BOOST_TEST(!s.session->save_under_way());
  BOOST_TEST(s.session->steps_done() == 1U);
  // The asynchronous save contains the states from before the load: those of the second step.
  load(*s.session, job.folder() / "saved");
  BOOST_TEST(s.session->steps_done() == 2U);
  auto fresh = open(job, two_ranks(3), job.folder() / "saved");
  check_alike(*s.session, *fresh.session);
}

BOOST_AUTO_TEST_CASE(a_refused_load_leaves_the_run_as_it_was_and_one_that_fails_half_way_ends_it) {
  const small_job job(tiny_gpt2), other(tiny_llama);
  const auto set = two_ranks(2);
  auto s = open(job, set), calm = open(job, set), stranger = open(other, set);
  train_on(*s.session, 2);
  train_on(*calm.session, 2);
  save(*stranger.session, {.root = job.folder() / "stranger"});
  const auto folder = save(*s.session, {.root = job.folder() / "saved"});
  auto reseeded = open(job, set + settings{"seed=8"});
  save(*reseeded.session, {.root = job.folder() / "reseeded"});
  check_refused(s.session->load(job.folder() / "stranger"), core::error_kind::mismatch,
                "model_type is of another family than this run's model");
  check_refused(s.session->load(job.folder() / "nowhere"), core::error_kind::bad_input, "nowhere");
  check_refused(s.session->load(job.folder() / "saved", {.tag = "best"}), core::error_kind::bad_input, "best");
  check_refused(s.session->load(job.folder() / "reseeded"), core::error_kind::mismatch, "seed is 7, was 8");
  BOOST_TEST_REQUIRE(s.session->offload_states().has_value());
  check_refused(s.session->load(folder), core::error_kind::bad_input, "offload_states: the states are offloaded");
  BOOST_TEST_REQUIRE(s.session->reload_states().has_value());
  check_alike(*s.session, *calm.session);

  auto bytes = scratch_folder::read(folder / "shard-00001.bin");
  bytes[4096] ^= 1;  // damages a byte of the first piece in the file
  job.folder().write("saved/step-00000002/shard-00001.bin", bytes);
  check_refused(s.session->load(folder), core::error_kind::bad_input,
                "the load failed after it had changed some states: ");
  const auto after = s.session->step();
  check_refused(after, core::error_kind::bad_input, "do not match their digest");
}

BOOST_AUTO_TEST_CASE(a_load_that_falls_back_and_then_finds_no_whole_checkpoint_ends_the_run) {
  const small_job job(tiny_gpt2);
  const auto root = job.folder() / "saved";
  const auto damage = [&](const std::string& folder) {
    auto bytes = scratch_folder::read(root / folder / "shard-00001.bin");
    bytes[4096] ^= 1;  // a byte of the first piece in the file
    job.folder().write("saved/" + folder + "/shard-00001.bin", bytes);
  };
  std::string said;
  actors::session_options o;
  o.config = job.config(two_ranks(2));
  o.hooks.on_warning = [&](const std::string& line) {
    // The older checkpoint is damaged between the comparison of its digests and the load.
    if (line.find("used instead: '") != std::string::npos) damage("step-00000001");
    said += line + "\n";
  };
  auto opened = actors::session::open(std::move(o));
  BOOST_TEST_REQUIRE(opened.has_value());
  auto& s = **opened;
  for (int i = 0; i < 2; ++i) {
    train_on(s, 1);
    save(s, {.root = root});
  }
  damage("step-00000002");
  const std::string none = "none of the 2 checkpoints in '" + root.string() + "'";
  check_refused(s.load(root, {.fallback_to_previous = true}), core::error_kind::bad_input, none);
  BOOST_TEST(said.find("the load failed after it had changed some states") != std::string::npos, said);
  BOOST_TEST(said.find("the load begins anew, with the newest checkpoint that is whole") != std::string::npos, said);
  check_refused(s.step(), core::error_kind::bad_input, none);
}

BOOST_AUTO_TEST_CASE(a_run_continues_with_another_batch_or_seed_at_the_sample_where_it_was) {
  const small_job job(tiny_gpt2_with_dropout);
  auto s = open(job, two_ranks(3));  // a step has four samples
  train_on(*s.session, 3);
  const auto root = job.folder() / "saved";
  const auto folder = save(*s.session, {.root = root});
  const auto smaller = two_ranks(3) + settings{"train_micro_batch_size_per_gpu=1"};
  const auto reseeded = two_ranks(3) + settings{"seed=8"};
  const auto refusal = [&](const settings& set) {
    const auto did = actors::session::open({.config = job.config(set), .resume = root});
    return did ? "accepted" : did.error().text;
  };
  const std::string quoted = std::string("'").append(folder.string()).append("'");
  BOOST_TEST(refusal(smaller) ==
             quoted +
                 ": train_batch_size is 2, was 4, so step 3 would begin at sample 6 and not at 12, "
                 "as before; set checkpoint.load.changed_batch: true (--changed-batch) to continue where it "
                 "was");
  BOOST_TEST(refusal(reseeded) ==
             quoted +
                 ": seed is 8, was 7, which is another order of samples; "
                 "set checkpoint.load.changed_seed: true (--changed-seed) to continue at sample 12 of it");

  auto half = open(job, smaller, root, {.changed_batch = true});
  BOOST_TEST(half.said("train_batch_size is 2, was 4: the run continues at sample 12 of the data"));
  BOOST_TEST(half.session->steps_done() == 3U);
  // Two steps of two samples process the samples of one step of four. Without dropout, and without updates between
  // them, the mean loss is equal.
  const auto plain = small_job(tiny_gpt2);
  const settings still = {"optimizer.params.lr=0", "optimizer.params.weight_decay=0"};
  auto whole_steps = open(plain, two_ranks(1) + still);
  train_on(*whole_steps.session, 3);
  const auto still_root = plain.folder() / "still";
  save(*whole_steps.session, {.root = still_root});
  auto half_steps = open(plain, two_ranks(1) + still + settings{"train_micro_batch_size_per_gpu=1"}, still_root,
                         {.changed_batch = true});
  const double mean = (step_of(*half_steps.session).loss + step_of(*half_steps.session).loss) / 2;
  BOOST_TEST(mean == step_of(*whole_steps.session).loss, boost::test_tools::tolerance(1e-5));

  // A later save records the position in the data, so a session that resumes from it or loads it needs no option.
  train_on(*half.session, 2);
  const auto later = save(*half.session, {.root = job.folder() / "later"});
  const auto saved = checkpoint::open_checkpoint(storage::real_files(), later);
  BOOST_TEST_REQUIRE(saved.has_value());
  BOOST_TEST(saved->content.run.data_position == 16U);
  BOOST_TEST(saved->content.run.samples_per_step.value_or(0) == 2U);
  auto live = open(job, smaller);
  train_on(*live.session, 2);
  load(*live.session, later);
  auto fresh = open(job, smaller, later);
  BOOST_TEST(fresh.warnings->empty());
  check_alike(*live.session, *fresh.session);

  auto other_order = open(job, reseeded, root, {.changed_seed = true});
  BOOST_TEST(other_order.said("seed is 8, was 7: the run continues at sample 12 of the data"));
  auto loaded = open(job, reseeded);
  train_on(*loaded.session, 1);
  load(*loaded.session, root, {.changed_seed = true});
  check_alike(*loaded.session, *other_order.session);
}

BOOST_AUTO_TEST_CASE(checkpoints_have_names_of_the_hosts_choice) {
  const small_job job(tiny_gpt2);
  auto s = open(job, two_ranks(1));
  const auto root = job.folder() / "saved";
  train_on(*s.session, 1);
  BOOST_TEST(save(*s.session, {.root = root, .tag = "global_step1"}) == root / "global_step1");
  train_on(*s.session, 1);
  BOOST_TEST(save(*s.session, {.root = root, .keep_last = 1, .tag = "best-1.5", .save_latest = false}) ==
             root / "best-1.5");
  train_on(*s.session, 1);
  load(*s.session, root);
  BOOST_TEST(s.session->steps_done() == 1U);
  load(*s.session, root, {.tag = "best-1.5"});
  BOOST_TEST(s.session->steps_done() == 2U);
  for (const char* bad : {"../out", "a/b", ".hidden", "latest", "zero", "a b", "step-00000009", "model.pt"})
    check_refused(s.session->save({.root = root, .tag = bad}), core::error_kind::bad_input,
                  std::string("the tag '") + bad + "': wanted a plain name");
  job.folder().write("saved/mine/notes.txt", "mine");
  check_refused(s.session->save({.root = root, .tag = "mine"}), core::error_kind::bad_input,
                "already exists and is not replaced");
  BOOST_TEST(scratch_folder::read(root / "mine/notes.txt") == "mine");
}

BOOST_AUTO_TEST_SUITE_END()
