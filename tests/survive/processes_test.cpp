// Checks that a job has the same bits in one process and in many: losses, norms, and every byte of its checkpoints, for
// each way to cut a model and to store its states.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/apps/topology.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(processes)

using namespace troupe::tests;

namespace {

const std::string job =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 32, vocab_size: 256}\n"
    "data: {text: corpus.txt, validation_fraction: 0.1}\n"
    "seed: 1\n"
    "steps: 6\n"
    "train_batch_size: 12\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "telemetry: {json_lines: true, report: false}\n"
    "checkpoint: {every_steps: 3}\n"
    "evaluation: {every_steps: 4, batches: 2}\n"
    "sample: {prompt: the, tokens: 6}\n";

/// Returns the content of a checkpoint's files, except their first page, which contains a random number.
std::map<std::string, std::string> saved_in(const std::filesystem::path& output) {
  constexpr size_t page = 4096;
  std::map<std::string, std::string> out;
  for (const auto& step : std::filesystem::directory_iterator(output / "checkpoints"))
    if (step.is_directory())
      for (const auto& file : std::filesystem::directory_iterator(step)) {
        if (file.path().extension() == ".json") continue;
        const auto all = scratch_folder::read(file);
        out[(step.path().filename() / file.path().filename()).string()] = all.substr(std::min(page, all.size()));
      }
  return out;
}

struct way {
  const char* name;
  std::vector<std::string> set;
  const char* processes = "ranks";
};

void equal_in_many(const way& w) {
  BOOST_TEST_CONTEXT(w.name) {
    const command_folder folder(job);
    const auto trained = [&](const std::string& output, const std::string& processes) {
      std::vector<std::string> arguments{
          "train", "job.yaml", "--set", "output=" + output, "--set", "cluster.processes=" + processes};
      for (const auto& x : w.set) arguments.insert(arguments.end(), {"--set", x});
      return folder.troupe(arguments);
    };
    const auto one = trained("one", "one"), many = trained("many", w.processes);
    BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);
    BOOST_REQUIRE_MESSAGE(many.code == 0, many.err);
    const auto output = folder.folder.path();
    const auto different = first_difference(steps_of(output / "one"), steps_of(output / "many"));
    BOOST_TEST(!different, (different ? *different : ""));
    const auto wanted = saved_in(output / "one"), got = saved_in(output / "many");
    BOOST_TEST(wanted.size() >= 4U);
    BOOST_TEST(got.size() == wanted.size());
    for (const auto& [file, bytes] : wanted) BOOST_TEST((got.contains(file) && got.at(file) == bytes), file);
    const auto line = [](const std::string& out, const char* begin) {
      const auto at = out.rfind(begin);
      if (at == std::string::npos) return std::string();
      return out.substr(at, std::min(out.find('\n', at), out.find(" after", at)) - at);
    };
    for (const char* begin : {"sample: ", "validation loss "}) {
      BOOST_TEST(!line(one.out, begin).empty());
      BOOST_TEST(line(many.out, begin) == line(one.out, begin));
    }
  }
}

/// Tests the first `here` configurations, or all in `make soak`. The list begins with those that differ most.
void equal_in_many(uint64_t here, const std::vector<way>& ways) {
  const uint64_t wanted = std::min<uint64_t>(wanted_cases("TROUPE_WAYS", here), ways.size());
  for (uint64_t i = 0; i < wanted; ++i) equal_in_many(ways[i]);
}

const std::vector<std::string> in_files = {"zero_optimization.offload_optimizer.device=nvme",
                                           "zero_optimization.offload_optimizer.nvme_path=swap"};

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_stage_and_precision_has_the_bits_of_one_process) {
  const auto stage = [](const char* number) {
    return way{number, {"parallel.data=3", std::string("zero_optimization.stage=") + number}};
  };
  equal_in_many(2, {{"stage 3, bf16, accumulation",
                     {"parallel.data=3", "bf16.enabled=true", "gradient_accumulation_steps=2",
                      "zero_optimization.stage=3", "zero_optimization.stage3_param_persistence_threshold=0"}},
                    {"stage 1, fp16", {"parallel.data=2", "fp16.enabled=true", "zero_optimization.stage=1"}},
                    stage("2"),
                    stage("0"),
                    stage("1"),
                    stage("3")});
}

BOOST_AUTO_TEST_CASE(every_cut_across_processes_has_the_bits_of_one_process) {
  equal_in_many(3, {{"pipeline of 2, stage 1", {"parallel.data=2", "parallel.pipeline=2", "zero_optimization.stage=1"}},
                    {"tensor", {"parallel.data=2", "parallel.tensor=2"}},
                    {"two ranks each", {"parallel.data=2", "parallel.pipeline=2"}, "2"},
                    {"second copies of slices",
                     {"parallel.data=4", "zero_optimization.stage=3", "zero_optimization.zero_hpz_partition_size=2"}},
                    {"sequence", {"parallel.data=2", "parallel.sequence=2"}},
                    {"pipeline of 3", {"parallel.pipeline=3", "model.n_layer=4"}},
                    {"context", {"parallel.data=2", "parallel.context=2", "zero_optimization.stage=2"}},
                    {"replicas of shards",
                     {"parallel.data=4", "zero_optimization.stage=3", "zero_optimization.mics_shard_size=2"}}});
}

BOOST_AUTO_TEST_CASE(every_tier_and_optimizer_has_the_bits_of_one_process) {
  equal_in_many(3,
                {{"parameters in files",
                  with({"parallel.data=2", "zero_optimization.stage=3", "zero_optimization.offload_param.device=nvme",
                        "zero_optimization.offload_param.nvme_path=swap"},
                       in_files)},
                 {"ZenFlow",
                  {"parallel.data=2", "zero_optimization.stage=2", "zero_optimization.offload_optimizer.device=cpu",
                   "zero_optimization.zenflow={topk_ratio: 0.1, update_interval: 2, full_warm_up_rounds: 0, "
                   "overlap_step: true}"}},
                 {"compressed weights from step 3 on",
                  {"parallel.data=2", "zero_optimization.stage=1",
                   "compression_training.weight_quantization={shared_parameters: {enabled: true, schedule_offset: 2}, "
                   "different_groups: {a: {params: {start_bits: 8, target_bits: 8}, modules: ['*']}}}"}},
                 {"states in files", with({"parallel.data=2", "zero_optimization.stage=2"}, in_files)},
                 {"LAMB", {"parallel.data=2", "optimizer.type=Lamb", "zero_optimization.stage=2"}},
                 {"Muon", {"parallel.data=2", "optimizer.type=Muon", "zero_optimization.stage=1"}},
                 {"SuperOffload",
                  {"parallel.data=2", "zero_optimization.stage=3",
                   "zero_optimization.offload_optimizer={device: cpu, super_offload: true}"}}});
}

BOOST_AUTO_TEST_CASE(every_pruned_model_has_the_bits_of_one_process) {
  const auto pruned = [](const char* section, const char* method, const char* modules) {
    return fmt::format(
        "compression_training.{}={{shared_parameters: {{enabled: true, method: {}, schedule_offset: 2}}, "
        "different_groups: {{a: {{params: {{dense_ratio: 0.5}}, modules: ['{}']}}}}}}",
        section, method, modules);
  };
  equal_in_many(
      1, {{"blocks by their gradients",
           {"parallel.data=2", "zero_optimization.stage=3", pruned("sparse_pruning", "snip_momentum", "mlp.c_fc")}},
          {"learned rows", {"parallel.data=2", "zero_optimization.stage=2", pruned("row_pruning", "topk", "mlp.c_fc")}},
          {"the largest elements",
           {"parallel.data=2", "zero_optimization.stage=1", pruned("sparse_pruning", "l1", "*")}}});
}

BOOST_AUTO_TEST_CASE(every_schedule_of_passes_has_the_bits_of_one_process) {
  const std::vector<std::string> gathered{"parallel.data=2", "zero_optimization.stage=3",
                                          "zero_optimization.stage3_param_persistence_threshold=0"};
  equal_in_many(1, {{"passes by steps",
                     with(gathered, {"compile={deepcompile: true, schedule: [{step: 0, passes: [prefetch]}, {step: 2, "
                                     "passes: [selective_gather, recompute]}, {step: 4, passes: []}]}"})},
                    {"passes by measured times", with(gathered, {"steps=10", "checkpoint.every_steps=5",
                                                                 "compile={deepcompile: true, profile_steps: 3}"})}});
}

BOOST_AUTO_TEST_CASE(a_model_that_learns_from_another_has_the_bits_of_one_process) {
  const command_folder folder(job);
  const auto trained = [&](const std::string& output, const std::string& processes, std::vector<std::string> more) {
    std::vector<std::string> arguments{"train",    "job.yaml",
                                       "--export", output + "-weights",
                                       "--set",    "output=" + output,
                                       "--set",    "parallel.data=2",
                                       "--set",    "cluster.processes=" + processes};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto did = folder.troupe(arguments);
    BOOST_REQUIRE_MESSAGE(did.code == 0, did.err);
  };
  const auto weights = [&](const std::string& output) {
    return scratch_folder::read(folder.folder.path() / (output + "-weights") / "model.safetensors");
  };
  trained("teacher", "one", {"--set", "zero_optimization.stage=3"});
  trained("teacher-many", "ranks", {"--set", "zero_optimization.stage=3"});
  BOOST_TEST((weights("teacher") == weights("teacher-many")));
  const std::vector<std::string> student{
      "--set",
      "model.teacher=teacher-weights",
      "--set",
      "model.n_layer=1",
      "--set",
      "zero_optimization.stage=2",
      "--set",
      "compression_training.layer_reduction={enabled: true, keep_number_layer: 1, module_name_prefix: transformer.h, "
      "teacher_layer: [1], other_module_name: [transformer.wte, transformer.wpe, transformer.ln_f]}",
      "--set",
      "distillation={enabled: true, temperature: 2, terms: {cross_entropy: 0.5, logits: {weight: 0.5}}}"};
  trained("one", "one", student);
  trained("many", "ranks", student);
  const auto different =
      first_difference(steps_of(folder.folder.path() / "one"), steps_of(folder.folder.path() / "many"));
  BOOST_TEST(!different, (different ? *different : ""));
  BOOST_TEST((weights("one") == weights("many")));
}

BOOST_AUTO_TEST_CASE(degrees_that_are_open_are_chosen_before_there_are_processes) {
  // The model is large enough that the predictions of both configurations are close to each other, so that both are
  // measured.
  const command_folder folder(
      replaced(job, "n_embd: 32, n_head: 4, n_positions: 32", "n_embd: 64, n_head: 4, n_positions: 64"));
  const auto did = folder.troupe({"train", "job.yaml", "--set", "output=many", "--set",
                                  "parallel={ranks: 2, data: auto, tensor: auto}", "--set", "cluster.processes=ranks"});
  BOOST_REQUIRE_MESSAGE(did.code == 0, did.err);
  BOOST_TEST(has(did.out, "degrees: "), did.out);
  BOOST_TEST(std::filesystem::exists(folder.folder.path() / "many" / "degrees.csv"));
  const bool cut = has(scratch_folder::read(folder.folder.path() / "many" / "config.yaml"), "tensor: 2");
  const auto one = folder.troupe({"train", "job.yaml", "--set", "output=one", "--set",
                                  cut ? "parallel={data: 1, tensor: 2}" : "parallel={data: 2, tensor: 1}"});
  BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);
  const auto different =
      first_difference(steps_of(folder.folder.path() / "one"), steps_of(folder.folder.path() / "many"));
  BOOST_TEST(!different, (different ? *different : ""));
}

BOOST_AUTO_TEST_CASE(what_one_process_has_saved_many_resume_and_the_other_way_round) {
  const command_folder folder(job);
  const auto trained = [&](const std::string& output, const std::vector<const char*>& processes) {
    const std::vector<const char*> steps{"3", "6", "9"}, data{"2", "1", "2"};
    for (size_t i = 0; i < steps.size(); ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const auto did = folder.troupe({"train", "job.yaml", "--steps", steps[i], "--set", "output=" + output, "--set",
                                      std::string("parallel.data=") + data[i], "--set",
                                      std::string("cluster.processes=") + processes[i]});
      BOOST_REQUIRE_MESSAGE(did.code == 0, did.err);
    }
    return steps_of(folder.folder.path() / output);
  };
  const auto different =
      first_difference(trained("one", {"one", "one", "one"}), trained("many", {"ranks", "one", "ranks"}));
  BOOST_TEST(!different, (different ? *different : ""));
}

BOOST_AUTO_TEST_CASE(what_does_not_go_together_with_processes_is_refused_by_name) {
  const std::map<std::string, std::string> refused{{"cluster.min_ranks=5", "cluster.min_ranks"},
                                                   {"cluster.processes=3", "cluster.processes"}};
  for (const auto& [set, key] : refused) {
    const command_folder folder(job);
    const auto did = folder.troupe({"train", "job.yaml", "--set", "output=out", "--set", "parallel.data=2", "--set",
                                    "cluster.processes=ranks", "--set", set});
    BOOST_TEST(did.code != 0, set);
    BOOST_TEST(has(did.err, key), set << ": " << did.err);
    BOOST_TEST(places_in(folder.folder.path()).empty());
  }
}

// The file sets all sizes, so that nothing is measured and early updates are predicted to be faster on every machine.
// The loss scale doubles with each step: the first window of steps has no overflow, and later ones have several.
BOOST_AUTO_TEST_CASE(a_job_that_updates_early_and_waits_again_has_the_bits_of_one_process) {
  const command_folder folder(
      "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
      "data: {text: corpus.txt}\n"
      "parallel: {data: 2}\n"
      "seed: 1\n"
      "steps: 26\n"
      "train_micro_batch_size_per_gpu: 32\n"
      "gradient_clipping: 100\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
      "fp16: {enabled: true, initial_scale_power: 8, loss_scale_window: 1, hysteresis: 1}\n"
      "zero_optimization: {stage: 2, sub_group_size: 16384, reduce_bucket_size: 8192, offload_optimizer: {device: "
      "nvme, nvme_path: swap, buffer_count: 4}}\n"
      "checkpoint: {every_steps: 13}\n"
      "telemetry: {json_lines: true, report: false}\n");
  const auto trained = [&](const std::string& output, const std::string& processes, const std::string& early) {
    auto ended = folder.troupe({"train", "job.yaml", "--set", "output=" + output, "--set",
                                "cluster={swap_gradients: "
                                "false, early_updates: " +
                                    early + ", processes: " + processes + "}"});
    BOOST_TEST_REQUIRE(ended.code == 0, ended.err);
    return ended;
  };
  const auto waits = trained("waits", "one", "false"), one = trained("one", "one", "auto"),
             many = trained("many", "ranks", "auto");
  BOOST_TEST(!has(waits.out, "updates begin"), waits.out);
  for (const auto* const run : {&one, &many}) {
    const auto begins = run->out.find("after 8 steps: updates begin before the norm is known"),
               ends = run->out.find(" steps: updates wait for the norm again");
    BOOST_TEST_REQUIRE(begins != std::string::npos, run->out);
    BOOST_TEST_REQUIRE(ends != std::string::npos, run->out);
    BOOST_TEST_REQUIRE(begins < ends, run->out);
    const auto between = run->out.substr(begins, ends - begins);
    // Some of the updates that were undone after an overflow must be early ones.
    BOOST_TEST(has(between, "skipped (loss scale"), run->out);
  }
  const auto output = folder.folder.path();
  const auto wanted = saved_in(output / "waits");
  BOOST_TEST(wanted.size() >= 4U);
  BOOST_TEST(steps_of(output / "waits").size() == 26U);
  for (const char* name : {"one", "many"}) {
    const auto different = first_difference(steps_of(output / "waits"), steps_of(output / name));
    BOOST_TEST(!different, name << ": " << (different ? *different : ""));
    BOOST_TEST((saved_in(output / name) == wanted), name << ": other bytes are saved");
  }
}

BOOST_AUTO_TEST_SUITE_END()
