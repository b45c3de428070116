// Checks runs of many processes that need several runs or choose something themselves: they have the losses, norms and
// weights of one process. Settings that do not go together with processes are refused.
#include <boost/test/unit_test.hpp>

#include "tests/apps/topology.hpp"
#include "tests/survive/compared_job.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(runs_of_processes)

using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(a_model_that_learns_from_another_has_the_bits_of_one_process) {
  const command_folder folder(compared_job);
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
  const command_folder folder(
      replaced(compared_job, "n_embd: 32, n_head: 4, n_positions: 32", "n_embd: 64, n_head: 4, n_positions: 64"));
  const auto did = folder.troupe({"train", "job.yaml", "--set", "output=many", "--set",
                                  "parallel={ranks: 2, data: auto, tensor: auto}", "--set", "cluster.processes=ranks"});
  BOOST_REQUIRE_MESSAGE(did.code == 0, did.err);
  BOOST_TEST(has(did.out, "degrees: "), did.out);
  const bool cut = has(scratch_folder::read(folder.folder.path() / "many" / "config.yaml"), "tensor: 2");
  const auto one = folder.troupe({"train", "job.yaml", "--set", "output=one", "--set",
                                  cut ? "parallel={data: 1, tensor: 2}" : "parallel={data: 2, tensor: 1}"});
  BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);
  const auto different =
      first_difference(steps_of(folder.folder.path() / "one"), steps_of(folder.folder.path() / "many"));
  BOOST_TEST(!different, (different ? *different : ""));
}

BOOST_AUTO_TEST_CASE(what_one_process_has_saved_many_resume_and_the_other_way_round) {
  const command_folder folder(compared_job);
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
    const command_folder folder(compared_job);
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
