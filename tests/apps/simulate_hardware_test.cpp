// Tests `troupe simulate FILE --hardware NAME`: the prediction of a job on hardware that is not here.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(simulate_hardware)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

/// A folder with the examples that are predicted.
struct example_folder : command_folder {
  example_folder() {
    for (const char* name : {"gpt_175b.yaml", "cut.yaml"})
      fs::copy(fs::path(troupe::places::source_dir) / "examples" / name, folder / name);
  }
  /// Runs `troupe simulate` of a file on a card or stack.
  [[nodiscard]] finished predicted(const std::string& file, const std::string& hardware,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"simulate", file, "--hardware", hardware};
    words.insert(words.end(), more.begin(), more.end());
    return troupe(words);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_line_has_the_step_and_whether_memory_fits) {
  const example_folder f;
  const auto r = check_exit(0, f.predicted("gpt_175b.yaml", "h100"));
  BOOST_TEST(r.out.starts_with("gpt_175b.yaml on 4096 h100: a step takes 9.773 s; memory fits: 18.6 GiB of 74.5 GiB, "
                               "55.9 GiB to spare\nwarning: extrapolated: hidden 12288 is outside of the 6144 to 8192"),
             r.out);
  for (const char* words :
       {"megatron_h100 (Megatron-LM, NeMo on h100), the stack that is taken for the card h100",
        "4096 samples: 4096 data ranks x 1 micro-batch of 1\n", "MFU", "tokens/s", "exposed communication",
        "80 % of such runs lie within", "an extrapolation may lie outside", "memory of the fullest stage: no interval",
        "1 % more of the constants that matter most", "each layer is gathered for forward and again for backward",
        "placed on nodes of 8 GPUs", "no checkpoint, evaluation or wait for data is in the step"})
    BOOST_TEST(has(r.out, words), words << " in\n" << r.out);
  const auto same = check_exit(0, f.predicted("gpt_175b.yaml", "megatron_h100"));
  BOOST_TEST(!has(same.out, "that is taken for"), same.out);
  BOOST_TEST(has(same.out, "a step takes 9.773 s"), same.out);
}

BOOST_AUTO_TEST_CASE(json_has_the_same_with_parts_that_add_up) {
  const example_folder f;
  const auto r = check_exit(0, f.predicted("gpt_175b.yaml", "h100", {"--json"}));
  const auto out = nlohmann::json::parse(r.out);
  BOOST_TEST(out.at("format") == "troupe simulate");
  BOOST_TEST(out.at("ranks") == 4096);
  BOOST_TEST(out.at("nodes") == 512);
  BOOST_TEST(out.at("hardware").at("named") == "h100");
  BOOST_TEST(out.at("hardware").at("stack") == "megatron_h100");
  const double step_s = out.at("step").at("predicted"), peak = out.at("memory").at("predicted");
  BOOST_TEST(std::abs(step_s / 9.773462292 - 1) < 1e-6);  // by tests/hardware/fixtures/reference.py
  BOOST_TEST(std::abs(peak / (18.62748436768 * 1024 * 1024 * 1024) - 1) < 1e-6);
  for (const char* quantity : {"step", "memory"}) {
    double sum = 0;
    for (const auto& [name, value] : out.at(quantity).at("parts").items()) sum += value.get<double>();
    BOOST_TEST(std::abs(sum / out.at(quantity).at("predicted").get<double>() - 1) < 1e-12, quantity);
    BOOST_TEST(out.at(quantity).at("matter_most").size() == 3U);
  }
  BOOST_TEST((out.at("step").at("low") < step_s && out.at("step").at("high") > step_s));
  BOOST_TEST(out.at("memory").at("low").is_null());
  BOOST_TEST(out.at("memory").at("verdict") == "fits");
  BOOST_TEST(out.at("warnings").size() == 3U);
  BOOST_TEST(std::abs(out.at("tokens_per_s").get<double>() * step_s / (4096.0 * 2048) - 1) < 1e-9);
}

BOOST_AUTO_TEST_CASE(a_job_that_does_not_fit_is_predicted_and_says_so_first) {
  const example_folder f;
  const auto r =
      check_exit(0, f.predicted("gpt_175b.yaml", "h100", {"--set", "activation_checkpointing.enabled=false"}));
  BOOST_TEST(has(r.out.substr(0, r.out.find('\n')), "memory exceeds the card: 106 GiB of 74.5 GiB, 31.6 GiB too much"),
             r.out);
  const auto sharded = check_exit(0, f.predicted("gpt_175b.yaml", "fsdp_h100"));
  BOOST_TEST(has(sharded.out, "memory is not predicted: fsdp_h100 has no constants of memory\n"), sharded.out);
}

BOOST_AUTO_TEST_CASE(a_number_of_ranks_sets_the_data_ranks_and_says_which_batch_was_taken) {
  const example_folder f;
  const auto more = check_exit(0, f.predicted("gpt_175b.yaml", "h100", {"--ranks", "8192"}));
  BOOST_TEST(has(more.out,
                 "8192 samples: 8192 data ranks x 1 micro-batch of 1; the file's is 4096 on 4096 data ranks, "
                 "and changes with them because it gives no train_batch_size"),
             more.out);
  const auto kept =
      check_exit(0, f.predicted("gpt_175b.yaml", "h100", {"--ranks", "2048", "--set", "train_batch_size=8192"}));
  BOOST_TEST(has(kept.out,
                 "8192 samples: 2048 data ranks x 4 micro-batches of 1; the file's train_batch_size, which 4096 "
                 "data ranks divide into 2 micro-batches of 1"),
             kept.out);
  const auto split =
      check_exit(0, f.predicted("gpt_175b.yaml", "h100", {"--ranks", "4096", "--set", "parallel.tensor=8", "--json"}));
  const auto out = nlohmann::json::parse(split.out);
  BOOST_TEST(out.at("degrees").at("data") == 512);
  BOOST_TEST(out.at("ranks") == 4096);
  const auto wrong =
      check_exit(2, f.predicted("gpt_175b.yaml", "h100", {"--ranks", "4095", "--set", "parallel.tensor=8"}));
  BOOST_TEST(has(wrong.err, "got 4095; the nearest are 4088 and 4096"), wrong.err);
}

BOOST_AUTO_TEST_CASE(a_job_that_has_no_price_is_refused_with_what_to_set_and_then_extrapolated) {
  const example_folder f;
  const auto r = check_exit(2, f.predicted("cut.yaml", "h100", {"--ranks", "4096"}));
  BOOST_TEST(r.out.empty(), r.out);
  for (const char* words :
       {"troupe: error: bf16.enabled: all constants of megatron_h100 are of 16-bit products; wanted true",
        "troupe: error: gradient_order: the cost model exchanges gradients once a micro-batch at stage 3; wanted "
        "per_micro_batch",
        "troupe: error: pipeline.schedule: the cost model has 1f1b and interleaved_1f1b; wanted one of them, got "
        "zb_h1"})
    BOOST_TEST(has(r.err, words), words << " in\n" << r.err);
  const auto priced = check_exit(0, f.predicted("cut.yaml", "h100",
                                                {"--ranks", "4096", "--set", "bf16.enabled=true", "--set",
                                                 "gradient_order=per_micro_batch", "--set", "pipeline.schedule=1f1b"}));
  for (const char* words :
       {"cut.yaml on 4096 h100: a step takes 226.7 ms; memory fits", "warning: extrapolated: hidden 128 is outside of",
        "warning: extrapolated: layers 4 is outside of the 32 to 80", "warning: extrapolated: gpus 4096 is outside of",
        "16384 samples: 2048 data ranks x 4 micro-batches of 2"})
    BOOST_TEST(has(priced.out, words), words << " in\n" << priced.out);
}

BOOST_AUTO_TEST_CASE(constants_that_a_stack_lacks_are_named_with_other_stacks_of_the_card) {
  const example_folder f;
  const auto r = check_exit(2, f.predicted("gpt_175b.yaml", "a100"));
  BOOST_TEST(has(r.err,
                 "megatron_a100: the constant hop_latency_s is absent, and ZeRO 3 needs it; other stacks of a100 "
                 "are bloom_a100, fsdp_a100, "),
             r.err);
  check_exit(0, f.predicted("gpt_175b.yaml", "fsdp_a100"));
}

BOOST_AUTO_TEST_CASE(the_actors_of_a_job_run_by_the_constants_of_a_card) {
  const example_folder f;
  // A model whose products are large enough for a card: one with little to wait for takes nearly what the closed form
  // of the stack predicts, as both have the same terms for computing.
  const std::vector<std::string> large{"--set", "model.n_layer=8",         "--set", "model.n_embd=4096",
                                       "--set", "model.n_head=32",         "--set", "model.n_positions=2048",
                                       "--set", "model.vocab_size=50304",  "--set", "bf16.enabled=true",
                                       "--set", "parallel.pipeline=1",     "--set", "zero_optimization.stage=1",
                                       "--set", "gradient_order=per_step", "--json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), large.begin(), large.end());
    return nlohmann::json::parse(check_exit(0, f.predicted("cut.yaml", "h100", more)).out);
  };
  const auto closed = with({"--ranks", "8"});
  const auto run = with({"--ranks", "8", "--actors"});
  BOOST_TEST(run.at("format") == "troupe simulation");
  BOOST_TEST(run.at("predicted_step_s").is_null());
  BOOST_TEST(run.at("card").at("stack") == "megatron_h100");
  BOOST_TEST(run.at("card").at("fits") == true);
  BOOST_TEST(run.at("hosts") == 1);
  const double by_formula = closed.at("step").at("predicted"), by_actors = run.at("run").at("step_s");
  BOOST_TEST(std::abs(by_actors / by_formula - 1) < 0.15, by_actors << " and " << by_formula);
  const double compute_s = run.at("run").at("parts").at("compute_s");
  const double formula_s = closed.at("step").at("parts").at("compute_s").get<double>() +
                           closed.at("step").at("parts").at("host_s").get<double>();
  BOOST_TEST(std::abs(compute_s / formula_s - 1) < 0.05, compute_s << " and " << formula_s);
  // Two nodes: gradients cross the network, and take longer.
  const auto far = with({"--actors", "--ranks", "16"});
  BOOST_TEST(far.at("hosts") == 2);
  BOOST_TEST(far.at("run").at("step_s").get<double>() > by_actors);
}

BOOST_AUTO_TEST_CASE(a_card_runs_schedules_and_faults_that_the_closed_form_does_not_know) {
  const example_folder f;
  const auto r = check_exit(
      0, f.predicted("cut.yaml", "h100",
                     {"--set", "bf16.enabled=true", "--fault", "rank 3 dies at step 2", "--trace", "t.json"}));
  for (const char* words :
       {"4 ranks on 1 host, 2 steps, seed 0\nthe actors of the job's plans on h100, 4 GPUs a host, by the constants of "
        "megatron_h100\na step takes ",
        "pipeline bubble", "memory fits: ", "of the plan and 1.86 GiB beside it", "rank 3", "are lost"})
    BOOST_TEST(has(r.out, words), words << " in\n" << r.out);
  BOOST_TEST(!has(r.out, "troupe plan predicts"), r.out);
  BOOST_TEST(fs::exists(f.folder / "t.json"));
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--actors"}, "bf16.enabled: all constants of megatron_h100 are of 16-bit products"},
      {{"--actors", "--set", "bf16.enabled=true", "--set", "zero_optimization.offload_optimizer.device=cpu"},
       "zero_optimization.offload_optimizer.device: copies to and from host memory and files have no price on a card"},
      {{"--actors", "--set", "bf16.enabled=true", "--ranks", "12"}, "wanted whole nodes of 8 GPUs"},
      {{"--actors", "--network", "3"}, "--network: wanted a network with --hardware, whose nodes have a rate already"},
      {{"--steps", "2", "--measure"}, "--measure would do nothing here"}};
  for (const auto& [words, text] : wrong) {
    const auto bad = check_exit(2, f.predicted("cut.yaml", "h100", words));
    BOOST_TEST(has(bad.err, text), text << " in\n" << bad.err);
  }
}

BOOST_AUTO_TEST_CASE(options_of_the_virtual_clock_and_hardware_without_steps_are_refused) {
  const example_folder f;
  const std::pair<std::vector<std::string>, const char*> idle[] = {
      {{"--seed", "3"},
       "--seed would do nothing here: it is for a job on the virtual clock (with --hardware: --actors)"},
      {{"--measure"}, "--measure would do nothing here"},
      {{"--disk-read", "3"}, "--disk-read would do nothing here"},
      {{"--out", "p.csv"}, "--out would do nothing here: it is for a table of measurements"},
  };
  for (const auto& [words, why] : idle) {
    const auto r = check_exit(2, f.predicted("gpt_175b.yaml", "h100", words));
    BOOST_TEST(has(r.err, why), r.err);
    BOOST_TEST(r.out.empty());
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"h100,a100", "--hardware: wanted one card or stack for a job, got h100,a100"},
      {"h10", "unknown hardware 'h10', the nearest is h100"},
      {"a100_pcie", "the card a100_pcie has no stack with constants of steps"},
      {"nccl_a100", "the stack nccl_a100 has no constants of steps"},
  };
  for (const auto& [name, why] : wrong) {
    const auto r = check_exit(2, f.predicted("gpt_175b.yaml", name));
    BOOST_TEST(has(r.err, why), r.err);
  }
  const auto ranks = check_exit(2, f.troupe({"simulate", "--table", "t.csv", "--hardware", "h100", "--ranks", "4"}));
  BOOST_TEST(has(ranks.err, "--ranks would do nothing here: it is for a job"), ranks.err);
  const auto absent = check_exit(2, f.predicted("none.yaml", "h100", {"--ranks", "8"}));
  BOOST_TEST(has(absent.err, "none.yaml"), absent.err);
}

BOOST_AUTO_TEST_CASE(a_stack_in_a_file_is_taken_and_a_card_in_a_file_is_not) {
  const example_folder f;
  const fs::path hardware = fs::path(troupe::places::source_dir) / "hardware";
  fs::copy(hardware / "megatron_h100.yaml", f.folder / "own.yaml");
  fs::copy(hardware / "h100.yaml", f.folder / "card.yaml");
  const auto r = check_exit(0, f.predicted("gpt_175b.yaml", "own.yaml"));
  BOOST_TEST(has(r.out, "own (Megatron-LM, NeMo on h100)\n"), r.out);
  const auto card = check_exit(2, f.predicted("gpt_175b.yaml", "card.yaml"));
  BOOST_TEST(has(card.err, "card.yaml: a card has no constants of software: wanted a stack"), card.err);
}

BOOST_AUTO_TEST_SUITE_END()
