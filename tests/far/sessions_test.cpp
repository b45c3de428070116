// Tests whole runs on the simulated device: they have the CPU's losses, norms, weights and moments bit for bit, and the
// host never accesses the device's memory.
#include "actors/calibrate.hpp"
#include "actors/memory/ledger.hpp"
#include "plan/memory_places.hpp"
#include "tests/check_ok.hpp"
#include "tests/far/device.hpp"
#include "tests/far/late.hpp"
#include "tests/parity/document_lines.hpp"
#include "tests/parity/many_rows.hpp"
#include "tests/parity/places.hpp"

BOOST_AUTO_TEST_SUITE(sessions)

using namespace troupe;
using namespace troupe::tests;

namespace {

struct far_device {
  far_device() { far::provide(); }
};
BOOST_TEST_GLOBAL_FIXTURE(far_device);

constexpr uint64_t steps = 4;
const settings on_device = {"device=cuda"};
const settings two_ranks = {"parallel.data=2"};
const settings again = {"activation_checkpointing.enabled=true"};
const settings bf16 = {"bf16.enabled=true"}, fp16 = {"fp16.enabled=true", "fp16.initial_scale_power=8"};
const settings three_micro_batches = {"gradient_accumulation_steps=3"};

/// Checks that a run on the device has the CPU's bits, whether its streams are prompt or late, and that the device did
/// the computation.
void check(const small_job& job, const settings& set) {
  BOOST_TEST_CONTEXT(text_of(set)) {
    const auto wanted = train(job, set, steps);
    const auto before = far::counted();
    check_same(train(job, set + on_device, steps), wanted);
    BOOST_TEST(far::counted().kernels > before.kernels);
    const far::late_device late(1);
    check_same(train(job, set + on_device, steps), wanted);
  }
}

/// Returns the losses of all micro-batches and all outputs of an evaluation.
std::vector<float> evaluated(actors::session& s) {
  std::vector<float> out;
  auto report = s.evaluate(actors::evaluation_request{
      .batches = 2, .on_output = [&](const auto& x) { out.insert(out.end(), x.values.begin(), x.values.end()); }});
  if (!report) throw std::runtime_error(report.error().text);
  out.push_back(static_cast<float>(report->loss));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_stage_has_the_bits_of_the_cpu) {
  const small_job job;
  for (const int n : {0, 1, 2, 3}) check(job, stage(n) + two_ranks);
  check(job, stage(3) + settings{"parallel.data=4"} + three_micro_batches);
}

BOOST_AUTO_TEST_CASE(every_type_has_the_bits_of_the_cpu) {
  const small_job job(tiny_llama);
  check(job, stage(3));
  check(job, stage(3) + two_ranks + bf16);
  check(job, stage(2) + fp16 + three_micro_batches);
}

BOOST_AUTO_TEST_CASE(a_window_of_attention_has_the_bits_of_the_cpu) {
  const small_job job(
      "model: {model_type: mistral, num_hidden_layers: 2, hidden_size: 32, num_attention_heads: 4, "
      "num_key_value_heads: 2, intermediate_size: 64, max_position_embeddings: 24, vocab_size: 96, "
      "sliding_window: 5}\n");
  check(job, stage(3) + two_ranks);
  check(job, stage(1) + again + bf16);
}

BOOST_AUTO_TEST_CASE(every_optimizer_has_the_bits_of_the_cpu) {
  const small_job job;
  for (const std::string each : {"{type: Adagrad, params: {lr: 1.0e-2}}", "{type: Lion, params: {lr: 1.0e-3}}",
                                 "{type: SGD, params: {lr: 1.0e-2, momentum: 0.9}}",
                                 "{type: LAMB, params: {lr: 1.0e-2}}", "{type: Muon, params: {lr: 1.0e-2}}"})
    check(job, stage(2) + two_ranks + settings{"optimizer=" + each});
}

BOOST_AUTO_TEST_CASE(recomputation_and_early_updates_have_the_bits_of_the_cpu) {
  const small_job job(tiny_gpt2_with_dropout);
  const settings no_attention_dropout = {"model.attn_pdrop=0"};
  check(job, stage(3) + two_ranks + again + no_attention_dropout);
  check(job, stage(2) + settings{"gradient_clipping=0"} + no_attention_dropout);
}

BOOST_AUTO_TEST_CASE(row_tiles_of_one_panel_have_the_bits_of_the_cpu_in_fp32) {
  const settings tiled = many_rows + tiles_of_one_panel;
  const small_job gpt2 = job_of_many_rows(short_gpt2), llama = job_of_many_rows(short_llama);
  const settings no_attention_dropout = {"model.attn_pdrop=0"};
  BOOST_TEST(tiled_units(*llama.open(tiled + on_device)) == 3);
  BOOST_TEST(tiled_units(*gpt2.open(tiled + no_attention_dropout + on_device)) == 3);
  check(llama, tiled + stage(3) + two_ranks + again);
  check(gpt2, tiled + stage(1) + three_micro_batches + no_attention_dropout);
}

// The device adds the products of several tiles in fp32, and multiplies all rows at once without tiles.
BOOST_AUTO_TEST_CASE(products_of_more_rows_than_a_panel_are_near_those_of_the_cpu) {
  const small_job job = job_of_many_rows(short_llama);
  for (const settings& tiles : {settings{}, tiles_of_one_panel})
    for (const auto& [type, bound] : {std::pair(settings{}, 1e-4), std::pair(bf16, 2e-2)}) {
      const settings set = stage(2) + many_rows + tiles + type;
      BOOST_TEST_CONTEXT(text_of(set)) {
        const auto got = train(job, set + on_device, steps);
        check_near(got, train(job, set, steps), bound);
        const far::late_device late(5);
        check_same(train(job, set + on_device, steps), got);
      }
    }
}

BOOST_AUTO_TEST_CASE(dropout_of_attention_weights_is_refused_by_its_key) {
  const small_job job(tiny_gpt2_with_dropout);
  check_failed(actors::session::open({.config = job.config(stage(1) + on_device)}),
               "model.attn_pdrop: device: cuda supports only 0 for now, got 0.1");
}

BOOST_AUTO_TEST_CASE(heads_that_attention_cannot_load_are_refused_by_their_key) {
  const auto refused_of = [](const std::string& model, const settings& set) {
    const small_job job(model);
    const auto opened = actors::session::open({.config = job.config(set + on_device)});
    return opened ? std::string() : opened.error().text;
  };
  const std::string wanted = ": device: cuda supports only heads whose width is a multiple of 4, got a width of ";
  const std::string gpt2 = refused_of(tiny_gpt2, {"model.n_embd=24"});
  BOOST_TEST(gpt2.find("model.n_head" + wanted + "6") != std::string::npos, gpt2);
  const std::string llama = refused_of(tiny_llama, {"model.head_dim=6"});
  BOOST_TEST(llama.find("model.head_dim" + wanted + "6") != std::string::npos, llama);
  BOOST_TEST(refused_of(tiny_gpt2, {"model.n_embd=48"}).empty());
}

BOOST_AUTO_TEST_CASE(documents_and_dropout_have_the_bits_of_the_cpu) {
  const small_job job(tiny_gpt2_with_dropout), of_llama(tiny_llama);
  const settings documents = {"data.document_mask=true",
                              "data.text=" + job.folder().write("lines.jsonl", document_lines()).string()};
  check(job, stage(3) + two_ranks + documents + settings{"model.attn_pdrop=0"});
  check(of_llama, stage(1) + documents + again + bf16);
}

BOOST_AUTO_TEST_CASE(evaluation_outputs_and_samples_have_the_bits_of_the_cpu) {
  const small_job job(tiny_llama);
  const far::late_device late(2);
  for (const settings& place : {stage(0), stage(3) + two_ranks}) BOOST_TEST_CONTEXT(text_of(place)) {
      const settings set = place + settings{"data.validation_fraction=0.2"};
      const auto near = job.open(set), far = job.open(set + on_device);
      step_of(*near);
      step_of(*far);
      BOOST_TEST(evaluated(*near) == evaluated(*far), boost::test_tools::per_element());
      BOOST_TEST(near->generate({1, 2, 3}, 8, 0.7).value() == far->generate({1, 2, 3}, 8, 0.7).value(),
                 boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(states_that_a_host_writes_are_those_that_it_reads) {
  const small_job job;
  const far::late_device late(3);
  for (const settings& place :
       {stage(1), stage(3) + two_ranks, stage(3) + settings{zero + "offload_optimizer.device=cpu"}})
    BOOST_TEST_CONTEXT(text_of(place)) {
      const auto near = job.open(place), far = job.open(place + on_device);
      for (const auto& s : {near.get(), far.get()}) {
        const std::string& name = s->table().parameters[3].name;
        std::vector<float> weights = parameter_of(*s, 3), moments = moment_of(*s, 3, 0);
        for (float& w : weights) w *= 0.5F;
        for (float& m : moments) m += 0.25F;
        BOOST_REQUIRE(s->states().set_full_fp32_param(name, weights));
        BOOST_REQUIRE(s->states().set_full_optimizer_state(name, "exp_avg", moments));
        BOOST_TEST(parameter_of(*s, 3) == weights, boost::test_tools::per_element());
      }
      check_same(result_of(*far, steps), result_of(*near, steps));
      BOOST_TEST(gradient_of(*far, 3) == gradient_of(*near, 3), boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(a_lost_device_ends_the_step_and_gives_no_states) {
  const small_job job;
  const scratch_folder folder;
  for (const settings& place : {stage(0), stage(3) + two_ranks}) BOOST_TEST_CONTEXT(text_of(place)) {
      const auto s = job.open(place + on_device);
      step_of(*s);
      far::lose();
      const auto read = s->states().get_full_fp32_param(s->table().parameters[3].name);
      const auto saved = s->save({.root = folder / "lost"});
      const auto stepped = s->step();
      const double flops = actors::measured_matmul_flops(*job.config(on_device));
      far::be_prompt();
      BOOST_TEST(flops == 0);
      BOOST_REQUIRE((!read && !saved && !stepped));
      for (const auto& said : {read.error().text, saved.error().text, stepped.error().text})
        BOOST_TEST(said.find("the far device was lost") != std::string::npos, said);
      BOOST_TEST(!std::filesystem::exists(folder / "lost" / "latest"));
    }
}

BOOST_AUTO_TEST_CASE(an_exception_of_torch_ends_the_step_with_its_first_line) {
  const small_job job;
  const auto s = job.open(stage(1) + two_ranks + on_device);
  step_of(*s);
  far::fail_torch(true);
  const auto stepped = s->step();
  far::fail_torch(false);
  BOOST_REQUIRE(!stepped);
  const std::string& said = stepped.error().text;
  BOOST_TEST((stepped.error().kind == core::error_kind::io), said);
  BOOST_TEST(said.find(": forward embedding: LibTorch: cuBLAS error: not initialised") != std::string::npos, said);
  BOOST_TEST(said.find("advice") == std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(work_that_a_device_refused_ends_the_step_whoever_waits_first) {
  const small_job job;
  for (const settings& place : {stage(0), stage(0) + two_ranks, stage(3) + two_ranks,
                                stage(2) + two_ranks + settings{"optimizer={type: Muon, params: {lr: 1.0e-2}}"}})
    BOOST_TEST_CONTEXT(text_of(place)) {
      const auto s = job.open(place + on_device);
      step_of(*s);
      far::refuse_once();
      const auto stepped = s->step();
      far::be_prompt();
      BOOST_REQUIRE(!stepped);
      BOOST_TEST(stepped.error().text.find("the far device refused a launch") != std::string::npos,
                 stepped.error().text);
    }
}

BOOST_AUTO_TEST_CASE(memory_that_torch_does_not_find_is_told_with_the_instruction_and_what_the_plan_has) {
  const small_job job;
  const auto s = job.open(stage(1) + two_ranks + on_device);
  step_of(*s);
  far::refuse_memory(true);
  const auto stepped = s->step();
  BOOST_TEST(actors::measured_matmul_flops(*job.config(on_device)) == 0);
  far::refuse_memory(false);
  BOOST_REQUIRE(!stepped);
  const std::string& said = stepped.error().text;
  BOOST_TEST((stepped.error().kind == core::error_kind::limit), said);
  for (const char* part : {": forward embedding: out of the GPU's memory: LibTorch wanted ",
                           " bytes more for activations and operations, for which the plan leaves ",
                           " of the 16.0 GiB that the run may use (it has ", "gradient buckets ",
                           "; `troupe plan FILE --fit` lists settings that need less"})
    BOOST_TEST(said.find(part) != std::string::npos, part << " is not in " << said);
  BOOST_TEST(said.find('\n') == std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(memory_of_activations_on_the_device_is_counted_by_rank_and_given_back) {
  const small_job job;
  const settings common =
      stage(1) + two_ranks + settings{"data.sequence_length=24", "train_micro_batch_size_per_gpu=4"} + on_device;
  const far::late_device late(6);
  const auto peaks_with = [&](const settings& more) {
    auto s = job.open(common + more);
    step_of(*s);
    std::vector<uint64_t> out;
    for (const auto& rank : s->memory()) out.push_back(rank.activations_peak_bytes);
    s.reset();
    actors::allocation_ledger books(2, actors::counted_memory::device);
    for (const uint32_t r : {0U, 1U}) BOOST_TEST(books.peak_bytes(books.owner(r)) == 0U);
    return out;
  };
  const uint64_t inputs_of_blocks = uint64_t{6} * 4 * 24 * 32 * sizeof(float);
  const auto stored = peaks_with({}), computed_again = peaks_with(again);
  BOOST_TEST_REQUIRE((stored.size() == 2 && computed_again.size() == 2));
  for (const size_t r : {0U, 1U}) {
    BOOST_TEST(computed_again[r] > inputs_of_blocks);
    BOOST_TEST(computed_again[r] < stored[r]);
  }
}

BOOST_AUTO_TEST_CASE(passes_that_are_chosen_keep_to_the_memory_of_the_device_and_leave_the_bits) {
  const small_job job;
  const settings set = stage(3) + two_ranks;
  constexpr uint64_t all = 3;
  const auto wanted = train(job, set, all);
  const auto s = job.open(set + settings{"compile=auto", "cuda.memory_limit=64MiB"} + on_device);
  for (const auto& rank : s->memory())
    BOOST_TEST(plan::device_bytes(rank.resident, rank.tiers) <= (uint64_t{64} << 20) / 2);
  std::vector<uint64_t> losses;
  for (uint64_t i = 0; i < all; ++i) losses.push_back(std::bit_cast<uint64_t>(step_of(*s).loss));
  BOOST_TEST(losses == wanted.losses, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(torch_is_asked_for_settings_before_the_first_product_and_has_what_the_plan_leaves) {
  const small_job job;
  const auto before = far::counted().kernels;
  const uint64_t restored = far::last_asked().restored;
  {
    const auto s = job.open(stage(3) + settings{"cuda.tf32=true", "cuda.deterministic=true"} + on_device);
    const auto& asked = far::last_asked();
    BOOST_TEST(asked.settings.tf32);
    BOOST_TEST(asked.settings.deterministic);
    BOOST_TEST(asked.kernels == before);
    BOOST_TEST(asked.index == 0U);
    auto of_rank = s->memory().front();
    of_rank.resident.activations = 0;
    BOOST_TEST(asked.bytes == (uint64_t{1} << 34) - plan::device_bytes(of_rank.resident, of_rank.tiers));
    const auto second = actors::session::open({.config = job.config(stage(3) + on_device)});
    BOOST_REQUIRE(!second);
    BOOST_TEST(second.error().text ==
               "cuda.tf32: wanted true, the value of another session of this process, because LibTorch has one value "
               "for the whole process, got false");
    step_of(*s);
    const uint64_t emptied = asked.emptied;
    BOOST_TEST(actors::measured_matmul_flops(*job.config(on_device)) > 0);
    BOOST_TEST(asked.emptied == emptied + 1);
    BOOST_TEST(asked.restored == restored);
  }
  BOOST_TEST(far::last_asked().restored == restored + 1);
  const settings limited = stage(3) + settings{"cuda.memory_limit=64MiB"} + on_device;
  const auto first = job.open(limited);
  const uint64_t share = far::last_asked().bytes;
  BOOST_TEST(!far::last_asked().settings.tf32);
  BOOST_TEST(share < uint64_t{64} << 20);
  const auto second = job.open(limited);
  BOOST_TEST(far::last_asked().bytes == 2 * share);
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_not_there_is_refused_with_how_many_there_are) {
  const small_job job;
  const auto refused =
      actors::session::open({.config = job.config(stage(0) + settings{"cuda.devices=[3]"} + on_device)});
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text.find("device cuda:3: wanted cuda.devices with an index below 1") == 0U,
             refused.error().text);
}

BOOST_AUTO_TEST_CASE(an_environment_that_contradicts_determinism_is_refused) {
  const small_job job;
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0", 1);
  const auto refused =
      actors::session::open({.config = job.config(stage(0) + settings{"cuda.deterministic=true"} + on_device)});
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text.find("cuda.deterministic: wanted CUBLAS_WORKSPACE_CONFIG to be :4096:8, :16:8 or "
                                       "unset") == 0U,
             refused.error().text);
}

BOOST_AUTO_TEST_CASE(states_of_a_device_are_not_offloaded_between_steps) {
  const small_job job;
  const auto far = job.open(stage(1) + on_device);
  check_failed(far->offload_states({.device = plan::tier::cpu}), "cuda:0");
  step_of(*far);
}

BOOST_AUTO_TEST_CASE(numbers_of_a_batch_go_up_in_one_copy_and_nothing_else_crosses_while_a_step_computes) {
  const small_job job(tiny_llama);
  const auto s = job.open(stage(0) + three_micro_batches + on_device);
  step_of(*s);
  const auto before = far::counted();
  step_of(*s);
  const auto after = far::counted();
  BOOST_TEST(after.uploads == before.uploads);
  BOOST_TEST(after.downloads == before.downloads);
  BOOST_TEST(after.items == before.items);
}

// The far device copies from and to any memory of the host, as CUDA does; a real one would make the host wait.
BOOST_AUTO_TEST_CASE(copies_of_a_step_are_from_and_to_pinned_memory) {
  const small_job job;
  const settings optimizer_up = {zero + "offload_optimizer.device=cpu"};
  for (const settings& place :
       {stage(0), stage(2) + optimizer_up, stage(3) + optimizer_up + settings{zero + "offload_param.device=cpu"},
        stage(3) + states_in_files()})
    BOOST_TEST_CONTEXT(text_of(place)) {
      const auto s = job.open(place + two_ranks + three_micro_batches + on_device);
      step_of(*s);
      const auto before = far::counted();
      step_of(*s);
      const auto after = far::counted();
      BOOST_TEST(after.copies > before.copies);
      BOOST_TEST(after.unpinned == before.unpinned);
    }
}

BOOST_AUTO_TEST_CASE(a_run_saved_on_one_device_is_resumed_on_the_other) {
  const small_job job;
  const far::late_device late(4);
  for (const settings& place :
       {stage(0), stage(2), stage(3), stage(3) + settings{zero + "offload_optimizer.device=cpu"},
        stage(3) + states_in_files()}) {
    const settings all = place + two_ranks + bf16;
    const auto wanted = train(job, all, steps);
    for (const bool saved_there : {false, true}) BOOST_TEST_CONTEXT(text_of(all) << ", saved there: " << saved_there) {
        const settings first = saved_there ? all + on_device : all, then = saved_there ? all : all + on_device;
        const scratch_folder folder;
        {
          const auto s = job.open(first);
          for (uint64_t i = 0; i + 1 < steps / 2; ++i) step_of(*s);
          // The save must contain the states before the next step.
          BOOST_REQUIRE(s->save_async({.root = folder / "beside"}));
          step_of(*s);
          BOOST_REQUIRE(s->wait_for_saves());
          BOOST_REQUIRE(s->save({.root = folder / "after"}));
        }
        for (const uint64_t left : {steps / 2 + 1, steps / 2}) {
          BOOST_TEST_INFO_SCOPE("left " << left);
          auto s = check_ok(actors::session::open(
              {.config = job.config(then), .resume = folder / (left == steps / 2 ? "after" : "beside")}));
          const auto got = result_of(**s, left);
          BOOST_TEST(got.losses == std::vector(wanted.losses.end() - static_cast<int64_t>(left), wanted.losses.end()),
                     boost::test_tools::per_element());
          BOOST_TEST(same_bits(got.weights, wanted.weights));
          BOOST_TEST(same_bits(got.first, wanted.first));
          BOOST_TEST(same_bits(got.second, wanted.second));
        }
      }
  }
}

BOOST_AUTO_TEST_CASE(updates_that_threads_of_the_host_share_have_the_bits_of_the_cpu) {
  const small_job job;
  for (const std::string type : {"AdamW", "LAMB", "Muon"})
    check(job, stage(3) + settings{zero + "offload_optimizer.device=cpu",
                                   "optimizer={type: " + type + ", params: {lr: 1.0e-2}}"});
}

BOOST_AUTO_TEST_CASE(offloaded_states_have_the_bits_of_the_cpu) {
  const small_job job;
  check(job, stage(2) + two_ranks + settings{zero + "offload_optimizer.device=cpu"});
  check(job, stage(3) + two_ranks + settings{zero + "offload_optimizer.device=cpu", zero + "offload_param.device=cpu"});
  check(job, stage(3) + two_ranks + states_in_files());
}

BOOST_AUTO_TEST_CASE(a_change_of_degrees_has_the_bits_of_the_cpu) {
  const small_job job;
  const settings first = stage(2) + settings{"gradient_accumulation_steps=2"};
  const settings second = stage(3) + two_ranks + states_in_files();
  const auto changed = [&](const settings& device) {
    auto s = check_ok(actors::session::open({.config = job.config(first + device)}));
    (void)result_of(**s, steps);
    check_ok((*s)->change_degrees(job.config(second + device)));
    return result_of(**s, steps);
  };
  check_same(changed(on_device), changed({}));
}

BOOST_AUTO_TEST_CASE(a_change_of_degrees_to_another_device_or_its_settings_leaves_the_run_as_it_was) {
  const small_job job;
  auto s = check_ok(actors::session::open({.config = job.config(on_device)}));
  const auto before = result_of(**s, 1);
  const auto refused = [&](const settings& next, const std::string& why) {
    const auto did = (*s)->change_degrees(job.config(next));
    BOOST_TEST_REQUIRE(!did);
    BOOST_TEST(did.error().text.starts_with(why), did.error().text);
  };
  refused({}, "device: wanted cuda, as before in this run");
  refused(on_device + settings{"cuda.devices=[1]"}, "cuda.devices: wanted 0, as before in this run");
  refused(on_device + settings{"cuda.tf32=true"}, "cuda.tf32: wanted false, as before in this run");
  refused(on_device + settings{"cuda.deterministic=true"}, "cuda.deterministic: wanted false, as before in this run");
  const auto after = result_of(**s, steps - 1);
  const auto wanted = train(job, {}, steps);
  BOOST_TEST(before.losses[0] == wanted.losses[0]);
  BOOST_TEST(after.losses == std::vector(wanted.losses.begin() + 1, wanted.losses.end()),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
