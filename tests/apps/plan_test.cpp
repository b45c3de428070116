// Tests `troupe plan` in all its output formats, and the example host program in apps/examples.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/apps/lanes_on_page.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(plan)

using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(the_summary_says_what_fits_and_how_long_it_takes) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"plan", "job.yaml"}));
  for (const char* part :
       {"proved", "predicted step ", "predicted to be hidden behind compute: gathers ", "parameters whole at once"})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(r.out, part), r.out);
  BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
  // A parameter that two units share is counted once, however many slots contain it.
  unsigned long long at_most = 0, of = 1;
  const auto line = r.out.find("at most ");
  BOOST_TEST_REQUIRE(line != std::string::npos);
  BOOST_TEST(std::sscanf(r.out.c_str() + line, "at most %llu of %llu parameters", &at_most, &of) == 2);
  BOOST_TEST(at_most > 0U);
  BOOST_TEST(at_most <= of, r.out);
}

// The job has far more ranks than this machine could run; the output must count all of them.
BOOST_AUTO_TEST_CASE(thousands_of_ranks_are_planned_by_class) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"plan", "job.yaml", "--set", "model.n_layer=6", "--set", "model.n_embd=1024",
                                         "--set", "parallel.data=4096", "--rank", "4095"}));
  BOOST_TEST(has(r.out, "proved"), r.out);
  unsigned ranks = 0;
  const std::regex line("rank \\d+(?: and (\\d+) ranks? like it)?, host memory");
  for (std::sregex_iterator x(r.out.begin(), r.out.end(), line), end; x != end; ++x)
    ranks += 1 + ((*x)[1].matched ? static_cast<unsigned>(std::stoul((*x)[1].str())) : 0);
  BOOST_TEST(ranks == 4096U, r.out);
  BOOST_TEST(has(r.out, "rank 4095"), r.out);
}

BOOST_AUTO_TEST_CASE(table_dot_and_perfetto_are_well_formed) {
  const command_folder f;
  const auto table = check_exit(0, f.troupe({"plan", "job.yaml", "--format", "table", "--rank", "1"}));
  BOOST_TEST(has(table.out, "gather block 1"));
  BOOST_TEST(lines_of(table.out) > 20U);
  const auto dot = f.troupe({"plan", "job.yaml", "--format", "dot"});
  BOOST_TEST(dot.out.starts_with("digraph"), dot.out.substr(0, 80));
  const auto trace = f.troupe({"plan", "job.yaml", "--format", "perfetto", "--trace", "t.json"});
  BOOST_TEST(nlohmann::json::parse(trace.out).at("traceEvents").size() > 20U);
  BOOST_TEST(scratch_folder::read(f.folder / "t.json") == trace.out);
}

BOOST_AUTO_TEST_CASE(a_page_draws_the_predicted_step_of_every_rank) {
  const command_folder f;
  const auto shown = check_exit(0, f.troupe({"plan", "job.yaml", "--html", "p.html", "--trace", "t.json"}));
  BOOST_TEST(has(shown.out, " proved\n"), shown.out);
  const auto page = scratch_folder::read(f.folder / "p.html");
  const auto drawn = lanes_on(page);
  BOOST_TEST((drawn.at("ranks") == nlohmann::json({"rank 0", "rank 1"})));
  size_t bars = 0, events = 0;
  for (const auto& row : drawn.at("rows")) {
    BOOST_TEST(row[2] == 1);
    bars += row[3].size() / 4;
  }
  std::map<std::string, double> starts_us;  // rank and name: start in the trace
  const auto trace = nlohmann::json::parse(scratch_folder::read(f.folder / "t.json"));
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    ++events;
    starts_us[fmt::format("{} {}", e.at("pid").get<int>(), e.at("name").get<std::string>())] = e.at("ts");
  }
  BOOST_TEST(bars == events);
  size_t compared = 0;
  for (const auto& row : drawn.at("rows")) {
    int64_t at_ns = 0;
    for (size_t i = 0; i < row[3].size(); i += 4) {
      at_ns += row[3][i].get<int64_t>();
      const std::string name = drawn.at("works")[row[3][i + 2].get<size_t>()][0];
      if (row[1] != "compute" || !name.starts_with("forward")) continue;
      BOOST_TEST(std::abs(double(at_ns) / 1e3 - starts_us.at(fmt::format("{} {}", row[0].get<int>(), name))) < 0.002);
      ++compared;
    }
  }
  BOOST_TEST(compared >= 8U);
  for (const char* part : {"<h1>Planned: job.yaml</h1>", "A step of 2 ranks is predicted to take ",
                           "<h2>Where the step goes</h2>", "<h2>Memory by owner</h2>", "<td>moments</td>"})
    BOOST_TEST(has(page, part), part << " is missing");
  BOOST_TEST(!has(page, "http:"));
  check_in_browser(f, "p.html");
  const auto nowhere = check_exit(1, f.troupe({"plan", "job.yaml", "--html", "nowhere/p.html"}));
  BOOST_TEST(has(nowhere.err, "nowhere/p.html"), nowhere.err);
  check_exit(0, f.troupe({"plan", "job.yaml", "--explain", "--disk-read", "1", "--html", "p.html"}));
  for (const char* other : {"--layers", "--degrees", "--fit"}) {
    const auto idle = check_exit(2, f.troupe({"plan", "job.yaml", "--html", "p.html", other}));
    BOOST_TEST(has(idle.err, "--html would do nothing here"), idle.err);
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_not_there_and_a_plan_that_does_not_fit_are_refused) {
  const command_folder f;
  const auto rank = check_exit(2, f.troupe({"plan", "job.yaml", "--rank", "2"}));
  BOOST_TEST(rank.err == "troupe: error: --rank: wanted one below 2, got 2\n");
  const auto budget = f.troupe({"plan", "job.yaml", "--set", "cluster.host_memory_budget=100000"});
  BOOST_TEST(budget.code != 0);
  BOOST_TEST(sentences_of(budget.err) == 1U, budget.err);
  const auto trace = check_exit(1, f.troupe({"plan", "job.yaml", "--trace", "nowhere/t.json"}));
  BOOST_TEST(has(trace.err, "nowhere/t.json"), trace.err);
}

BOOST_AUTO_TEST_CASE(row_tiles_of_the_head_are_shown_and_counted) {
  const command_folder f;
  const auto with = [&](const std::string& bytes) {
    return f.troupe({"plan", "job.yaml", "--set", "train_micro_batch_size_per_gpu=1000", "--set",
                     "cluster.row_tile_bytes=" + bytes});
  };
  const auto tiled = with("1"), whole = with("0");
  BOOST_TEST_REQUIRE(tiled.code == 0, tiled.err);
  BOOST_TEST(has(tiled.out, " tiles of at most 2048 rows, "), tiled.out);
  BOOST_TEST(!has(whole.out, "tiles of"), whole.out);
  BOOST_TEST(tiled.out.substr(0, tiled.out.find("in all")) != whole.out.substr(0, whole.out.find("in all")));
}

BOOST_AUTO_TEST_CASE(row_tiles_of_mlps_are_shown_and_counted) {
  const command_folder f;
  const auto with = [&](const std::string& bytes) {
    return f.troupe({"plan", "job.yaml", "--set", "train_micro_batch_size_per_gpu=1000", "--set",
                     "cluster.mlp_tile_bytes=" + bytes});
  };
  const auto tiled = with("1"), whole = with("0");
  BOOST_TEST_REQUIRE(tiled.code == 0, tiled.err);
  BOOST_TEST(has(tiled.out, "each MLP: "), tiled.out);
  BOOST_TEST(has(tiled.out, " tiles of at most 2048 rows, "), tiled.out);
  BOOST_TEST(!has(whole.out, "tiles of"), whole.out);
  BOOST_TEST(tiled.out.substr(0, tiled.out.find("in all")) != whole.out.substr(0, whole.out.find("in all")));
}

BOOST_AUTO_TEST_CASE(a_pipeline_is_shown_by_stages_and_its_schedule_can_be_written_and_read) {
  const command_folder f;
  const std::vector<std::string> cut = {"--set", "parallel.pipeline=2",
                                        "--set", "gradient_accumulation_steps=4",
                                        "--set", "model.tie_word_embeddings=false"};
  const auto typed = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "job.yaml"});
    words.insert(words.end(), cut.begin(), cut.end());
    return f.troupe(words);
  };
  const auto r = check_exit(0, typed({}));
  for (const char* part : {"rank 3", "stage  rank  units", "in flight",
                           "schedule 1f1b, 4 micro-batches: ", "partition best: stage ", " bounds the step\n"})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(r.out, part), r.out);
  const auto csv = typed({"--format", "schedule"});
  BOOST_TEST(csv.out == "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n", csv.out);
  f.folder.write("own.csv", typed({"--format", "schedule", "--transfers"}).out);
  const auto again = typed({"--format", "schedule", "--set", "pipeline.schedule=own.csv"});
  BOOST_TEST(again.out == csv.out, again.out + again.err);
  const auto estimate = check_exit(0, typed({"--estimate"}));
  for (const std::vector<std::string>& one : {std::vector<std::string>{"--rank", "1", "--layers"},
                                              {"--saving", "--format", "schedule"},
                                              {"--trace", "t.json", "--degrees"},
                                              {"--disk-read", "1", "--layers"},
                                              {"--measure", "--explain"},
                                              {"--disk-write", "1", "--format", "table"},
                                              {"--disk-write", "1", "--estimate"},
                                              {"--rank", "1", "--estimate"}}) {
    std::vector<std::string> words{"plan", "job.yaml"};
    words.insert(words.end(), one.begin(), one.end());
    const auto idle = check_exit(2, f.troupe(words));
    BOOST_TEST(has(idle.err, one[0] + " would do nothing here"), idle.err);
  }
  // Rates decide the plan of states in files, and are in a trace beside any output.
  for (const std::vector<std::string>& one :
       {std::vector<std::string>{"--set", "zero_optimization.offload_optimizer={device: nvme, nvme_path: .}"},
        {"--trace", "t.json"}}) {
    std::vector<std::string> words{"plan", "job.yaml", "--explain", "--disk-read", "1"};
    words.insert(words.end(), one.begin(), one.end());
    check_exit(0, f.troupe(words));
  }
  const auto two = check_exit(2, f.troupe({"plan", "job.yaml", "--layers", "--explain"}));
  BOOST_TEST(has(two.err, "--explain: cannot be combined with --layers"), two.err);
  const auto alone = f.troupe({"plan", "job.yaml", "--transfers"});
  BOOST_TEST(alone.err == "troupe: error: --transfers: give --format schedule, too\n");
}

BOOST_AUTO_TEST_CASE(a_run_leaves_the_times_of_its_units_and_the_schedule_that_it_found_for_the_next_run) {
  const command_folder f;
  const auto typed = [&](const std::string& command, std::vector<std::string> words = {}) {
    words.insert(words.begin(), {command, "job.yaml", "--set", "parallel.pipeline=2", "--set",
                                 "gradient_accumulation_steps=4", "--set", "pipeline.schedule=search"});
    auto r = f.troupe(words);
    BOOST_TEST_REQUIRE(r.code == 0, r.err + r.out);
    return r;
  };
  const auto file = [&](const char* name) { return scratch_folder::read(f.folder / "out" / name); };
  const std::string modelled = "times of stages are the cost model's\n", kept = "the schedule is the one that";
  const auto before = typed("plan");
  BOOST_TEST(has(before.out, modelled), before.out);
  BOOST_TEST(!has(before.out, kept), before.out);
  typed("train");
  BOOST_TEST(file("profile.csv").starts_with("troupe profile,1\ndtype,fp32\nsteps,4\n"), file("profile.csv"));
  BOOST_TEST(file("schedule.csv").starts_with("0F0,"), file("schedule.csv"));
  BOOST_TEST(has(typed("plan", {"--set", "pipeline.profile=never"}).out, kept));
  const auto after = typed("plan");
  BOOST_TEST(has(after.out, "times of stages are measured: "), after.out);
  BOOST_TEST(has(after.out, "out/profile.csv\n"), after.out);
  const auto profile = file("profile.csv");
  typed("train", {"--fresh"});
  const auto schedule = file("schedule.csv");
  BOOST_TEST(file("profile.csv") == profile);
  typed("train", {"--fresh"});
  BOOST_TEST(file("schedule.csv") == schedule);
  BOOST_TEST(has(typed("plan").out, kept));
  BOOST_TEST(has(typed("plan", {"--set", "train_micro_batch_size_per_gpu=2"}).out, modelled));
}

BOOST_AUTO_TEST_CASE(a_cut_over_tensor_ranks_is_shown_by_parameters_and_exchanges) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"plan", "job.yaml", "--set", "parallel.tensor=2"}));
  for (const char* part : {"transformer.h.*.attn.c_attn.weight  column", "transformer.h.*.mlp.c_proj.weight   row",
                           "all other parameters are whole on each of 2 tensor ranks", " exchanges of "})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(r.out, part), r.out);
  BOOST_TEST(has(r.out, "  family\n"), r.out);
  const auto more = check_exit(2, f.troupe({"plan", "job.yaml", "--set", "parallel.tensor=64"}));
  BOOST_TEST(has(more.err, "parallel.tensor: wanted at most "), more.err);
}

BOOST_AUTO_TEST_CASE(a_cut_by_partition_config_is_shown_with_what_says_it) {
  const std::string specs =
      "tensor_parallel:\n"
      "  autotp_size: 2\n"
      "  partition_config:\n"
      "    layer_specs:\n"
      "      - {patterns: ['.*c_attn'], shape: [3, -1]}\n"
      "      - {patterns: ['.*attn.c_proj'], partition_type: row}\n";
  const command_folder f(smallest + specs);
  const auto r = check_exit(0, f.troupe({"plan", "job.yaml"}));
  BOOST_TEST(has(r.out, "transformer.h.*.attn.c_attn.weight  column"), r.out);
  BOOST_TEST(has(r.out, "  config\n"), r.out);
  for (const char* whole : {"mlp.c_proj.weight  ", "wte", "  family\n"})
    BOOST_TEST_CONTEXT(whole) BOOST_TEST(!has(r.out, whole), r.out);
  f.folder.write("half.yaml", smallest + specs.substr(0, specs.rfind("      -")));
  const auto half = check_exit(2, f.troupe({"plan", "half.yaml"}));
  BOOST_TEST(has(half.err, "half.yaml:14: tensor_parallel.partition_config: wanted all layers of 'attention'"),
             half.err);
}

BOOST_AUTO_TEST_CASE(a_pipeline_that_cannot_be_is_refused_at_its_line) {
  const command_folder f(smallest + "pipeline: {schedule: own.csv}\n");
  f.folder.write("own.csv", "0F0,0B0\n1F0\n");
  const auto r = check_exit(2, f.troupe({"plan", "job.yaml", "--set", "parallel.pipeline=2"}));
  BOOST_TEST(has(r.err, "job.yaml:10:22: error: pipeline.schedule: "), r.err);
  BOOST_TEST(has(r.err, "own.csv:2: 1B0 is missing"), r.err);
  check_exit(2, f.troupe({"config", "check", "job.yaml", "--set", "parallel.pipeline=5"}));
}

BOOST_AUTO_TEST_CASE(an_unknown_schedule_is_refused_without_a_pipeline_too) {
  const command_folder f(smallest + "pipeline: {schedule: nosuch}\n");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"config", "check", "job.yaml"}, {"plan", "job.yaml"}, {"train", "job.yaml"}}) {
    const auto r = f.troupe(command);
    BOOST_TEST(r.code == 2, command.front());
    BOOST_TEST(has(r.err, "job.yaml:10:22: error: pipeline.schedule: unknown pipeline schedule 'nosuch'"), r.err);
    BOOST_TEST(has(r.err, ", search, or a file ending in .csv"), r.err);
  }
  check_exit(0, f.troupe({"config", "check", "job.yaml", "--set", "pipeline.schedule=gpipe"}));
}

BOOST_AUTO_TEST_CASE(a_plan_shows_the_cost_of_a_checkpoint_in_its_step) {
  const command_folder f;
  const auto without = f.troupe({"plan", "job.yaml"});
  BOOST_TEST(!has(without.out, "a checkpoint:"), without.out);
  const auto with = f.troupe({"plan", "job.yaml", "--set", "checkpoint.every_steps=1"});
  BOOST_TEST(has(with.out, "a checkpoint: "), with.out);
  BOOST_TEST(has(with.out, " of staging"), with.out);
  const auto table = f.troupe({"plan", "job.yaml", "--saving", "--format", "table"});
  BOOST_TEST(has(table.out, "snapshot 0"), table.out);
  BOOST_TEST(has(table.out, "write 0"), table.out);
}

BOOST_AUTO_TEST_CASE(estimates_stand_beside_the_plans_own_peak) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"plan", "job.yaml", "--estimate"}));
  for (const char* part :
       {"HW: Setup with 1 node, 2 GPUs per node.\n", "SW: Model with 0M total params, 0M largest layer params.\n",
        "offload_param=none, offload_optimizer=cpu , zero_init=0\n", "this plan, stage 3 in fp32", "half at "})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(r.out, part), r.out);
}

BOOST_AUTO_TEST_CASE(what_each_pattern_of_compression_chose_is_listed_with_the_blocks_it_found) {
  const command_folder f;
  f.folder.write("small.yaml",
                 "model: {model_type: gpt2, n_layer: 12, n_head: 2, n_embd: 16, n_positions: 32, vocab_size: 64}\n"
                 "data: {text: corpus.txt, sequence_length: 16}\nsteps: 3\ntrain_micro_batch_size_per_gpu: 1\n"
                 "compression_training:\n  weight_quantization:\n"
                 "    shared_parameters: {enabled: true, quantize_weight_in_forward: true, schedule_offset: 4}\n"
                 "    different_groups:\n"
                 "      few: {params: {start_bits: 8, target_bits: 4}, modules: ['h.1.*attn.c_attn']}\n"
                 "      all: {params: {start_bits: 8, target_bits: 8}, modules: [c_fc]}\n");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"plan", "small.yaml"}, {"config", "explain", "small.yaml", "--given"}}) {
    const auto r = check_exit(0, f.troupe(command));
    for (const char* part : {"transformer.h.{1,10-11}.attn.c_attn        3  weight: 4 bits, symmetric       1  few",
                             "transformer.h.*.mlp.c_fc                  12  weight: 8 bits, symmetric       1  all"})
      BOOST_TEST_CONTEXT(part) BOOST_TEST(has(r.out, part), r.out);
  }
}

BOOST_AUTO_TEST_CASE(a_plan_says_how_it_came_about) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"plan", "job.yaml", "--explain", "--rank", "1"}));
  for (const char* part : {"pass ", "added  moved  removed  why\n", "write ", "prefetch ", "speculation "})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(r.out, part), r.out);
  const auto json = nlohmann::json::parse(f.troupe({"plan", "job.yaml", "--explain", "--json"}).out);
  BOOST_TEST(json.at(0).at("pass") == "write");
  BOOST_TEST(json.at(0).at("added") > 0);
  BOOST_TEST(json.size() + 1 == lines_of(r.out));
}

BOOST_AUTO_TEST_CASE(the_cheapest_tiers_that_fit_can_be_pasted) {
  const command_folder f;
  const auto none = check_exit(2, f.troupe({"plan", "job.yaml", "--fit"}));
  BOOST_TEST(has(none.err, "--fit: wanted a limit"), none.err);
  const auto plenty = f.troupe({"plan", "job.yaml", "--fit", "--memory", "1GiB", "--measure"});
  BOOST_TEST(!has(plenty.err, "wanted a folder"), plenty.err);
  BOOST_TEST_REQUIRE(plenty.code == 0, plenty.err);
  BOOST_TEST(has(plenty.out, "fits, the cheapest that does"), plenty.out);
  const std::string tight = "cluster.host_memory_budget=1500000";
  const auto r = f.troupe({"plan", "job.yaml", "--fit", "--set", tight});
  BOOST_TEST_REQUIRE(r.code == 0, r.out + r.err);
  const auto at = r.out.find("zero_optimization:");
  BOOST_REQUIRE(at != std::string::npos);
  auto pasted = smallest.substr(0, smallest.find("zero_optimization:")) + "output: out\n" + r.out.substr(at);
  f.folder.write("pasted.yaml", pasted);
  const auto planned = f.troupe({"plan", "pasted.yaml", "--set", tight});
  BOOST_TEST_REQUIRE(planned.code == 0, pasted + planned.err);
  BOOST_TEST(has(planned.out, "fits, left over"), planned.out);
  BOOST_TEST(has(planned.out, "predicted disk time"), planned.out);
  const auto nothing =
      check_exit(1, f.troupe({"plan", "job.yaml", "--fit", "--set", "cluster.host_memory_budget=100000"}));
  BOOST_TEST(has(nothing.out, "the smallest budget that works is "), nothing.out);
}

BOOST_AUTO_TEST_CASE(a_budget_that_is_too_small_names_the_largest_unit_and_the_least_that_works) {
  const std::string files =
      "offload_optimizer: {device: nvme, nvme_path: .}, offload_param: {device: nvme, nvme_path: .}, stage: 3,";
  const command_folder f(replaced(smallest, "stage: 3,", files));
  const auto r = check_exit(2, f.troupe({"plan", "job.yaml", "--set", "cluster.host_memory_budget=100000"}));
  const std::string wanted = "cluster.host_memory_budget: wanted at least ";
  BOOST_TEST_REQUIRE(has(r.err, wanted), r.err);
  BOOST_TEST(has(r.err, "the largest unit is block 0 with 195 KiB"), r.err);
  const auto least = std::stoull(r.err.substr(r.err.find(wanted) + wanted.size()));
  BOOST_TEST(f.troupe({"plan", "job.yaml", "--set", fmt::format("cluster.host_memory_budget={}", least)}).code == 0);
  BOOST_TEST(f.troupe({"plan", "job.yaml", "--set", fmt::format("cluster.host_memory_budget={}", least - 2)}).code ==
             2);
}

BOOST_AUTO_TEST_CASE(the_layers_of_a_model_are_shown_as_a_table_and_as_json) {
  const command_folder f;
  const auto table = check_exit(0, f.troupe({"plan", "job.yaml", "--layers"}));
  BOOST_TEST(lines_of(table.out) == 1U + 2 + 2 * 8 + 2, table.out);
  std::string packed = table.out.substr(table.out.find("transformer.h.1.attn.c_attn "));
  packed.resize(packed.find('\n'));
  BOOST_TEST(std::regex_match(packed, std::regex("[a-z_.1]+ +linear +64 +192 +in x out +weight, bias +4 \\+ 4 +"
                                                 "query 64, key 64, value 64")),
             packed);
  // The row is that of the head's weight, which is tied.
  BOOST_TEST(has(table.out, "out x in  transformer.wte.weight"), table.out);

  const auto json = f.troupe({"plan", "job.yaml", "--layers", "--json"});
  const auto layers = nlohmann::json::parse(json.out);
  BOOST_TEST_REQUIRE(layers.size() == 20U);
  const auto& c_attn = layers.at(3);
  BOOST_TEST(c_attn.at("name") == "transformer.h.0.attn.c_attn");
  BOOST_TEST(c_attn.at("unit") == "block 0");
  BOOST_TEST(c_attn.at("segment") == "attention");
  BOOST_TEST(c_attn.at("weight").at("shape") == nlohmann::json({64, 192}));
  BOOST_TEST(c_attn.at("weight").at("trained") == true);
  BOOST_TEST(c_attn.at("parts").at(1) == nlohmann::json({{"role", "key"}, {"width", 64}}));
  BOOST_TEST(layers.back().at("bias").is_null());
  // A model that is too large for any machine also has a table of layers.
  const auto large = check_exit(0, f.troupe({"plan", "job.yaml", "--layers", "--set", "model.n_embd=12288", "--set",
                                             "model.n_layer=96", "--set", "parallel.data=1"}));
  BOOST_TEST(lines_of(large.out) == 1U + 2 + 96 * 8 + 2);
  BOOST_TEST(f.troupe({"plan", "job.yaml", "--json", "--format", "table"}).code == 2);
}

BOOST_AUTO_TEST_CASE(a_host_program_steps_a_session_in_its_own_loop) {
  const command_folder f;
  const auto r = check_exit(0, run({troupe::places::embed_binary, "job.yaml"}, f.folder.path()));
  BOOST_TEST(has(r.out, "step 6: loss "), r.out);
  BOOST_TEST(r.out.ends_with("19 tokens of text, 2 ranks, done\n"), r.out);
  const auto soon = run({troupe::places::embed_binary, "job.yaml", "100"}, f.folder.path());
  BOOST_TEST(!has(soon.out, "step 2"), soon.out);
  const auto wrong = check_exit(1, run({troupe::places::embed_binary, "nowhere.yaml"}, f.folder.path()));
  BOOST_TEST(has(wrong.err, "nowhere.yaml"), wrong.err);
}

BOOST_AUTO_TEST_CASE(a_host_program_trains_its_own_modules_until_they_know_its_pictures) {
  const command_folder f;
  const auto r = check_exit(0, run({troupe::places::own_model_binary}, f.folder.path()));
  BOOST_TEST(has(r.out, "50698 parameters in 7 units over 2 ranks\n"), r.out);
  BOOST_TEST(r.out.ends_with(" 100 % of fresh pictures recognised\n"), r.out);
}

BOOST_AUTO_TEST_CASE(a_host_program_trains_modules_of_its_own_in_a_pipeline) {
  const command_folder f;
  const auto r = check_exit(0, run({troupe::places::own_pipeline_binary}, f.folder.path()));
  BOOST_TEST(r.out.starts_with("stage 0: words\n"), r.out);
  BOOST_TEST(has(r.out, "stage 1: head\n"), r.out);
  BOOST_TEST(r.out.ends_with(" of 3.4657 for guesses\n"), r.out);
}

BOOST_AUTO_TEST_CASE(a_host_program_trains_layers_of_its_own_over_tensor_ranks) {
  const command_folder f;
  const auto r = check_exit(0, run({troupe::places::own_layers_binary}, f.folder.path()));
  BOOST_TEST(has(r.out, "mlp 0.norm        whole (a norm reads whole rows)\n"), r.out);
  BOOST_TEST(has(r.out, "mlp 0.down        row 192: 96, 96 (rule "), r.out);
  BOOST_TEST(r.out.ends_with(" in whole modules, 3.4657 for guesses\n"), r.out);
}

BOOST_AUTO_TEST_CASE(a_host_program_has_fused_layers_put_into_its_modules_and_taken_out_again) {
  const command_folder f;
  const auto r = check_exit(0, run({troupe::places::fused_model_binary, "2", "32"}, f.folder.path()));
  for (const char* line : {"Troupe's embedding\n", "block '8' (HFGPT2LayerPolicy)\n", "norm with products '9'\n",
                           "Troupe's cross-entropy\n", "torch's layers again"})
    BOOST_TEST(has(r.out, line), r.out);
  BOOST_TEST(!has(r.out, "torch's: "), r.out);
}

BOOST_AUTO_TEST_CASE(a_host_program_trains_two_sessions_against_each_other_in_a_loop_of_its_own) {
  const command_folder f;
  const auto text = std::filesystem::path(troupe::places::source_dir) / "examples" / "corpus.txt";
  const auto r = check_exit(0, run({troupe::places::own_loop_binary, "3", text.string()}, f.folder.path()));
  BOOST_TEST(has(r.out, "step  3  discriminator "), r.out);
  BOOST_TEST(!has(r.out, "nan"), r.out);
  const auto wrong = check_exit(1, run({troupe::places::own_loop_binary, "1", "nowhere.txt"}, f.folder.path()));
  BOOST_TEST(has(wrong.err, "nowhere.txt"), wrong.err);
}

BOOST_AUTO_TEST_CASE(planning_needs_neither_libtorch_nor_actors) {
  const command_folder f;
  // Path of a copy of the program that is not next to the program which loads LibTorch and CAF.
  const auto alone = f.folder / "troupe";
  std::filesystem::copy_file(troupe::places::troupe_binary, alone);
  const auto libraries = check_exit(0, run({"/usr/bin/ldd", alone.string()}, f.folder.path()));
  BOOST_TEST(has(libraries.out, "libc.so"));
  for (const char* heavy : {"libtorch", "libc10", "libcaf"}) BOOST_TEST(!has(libraries.out, heavy), heavy);
  const auto planned = check_exit(0, run({alone.string(), "plan", "job.yaml"}, f.folder.path()));
  BOOST_TEST(has(planned.out, "proved"));
  const auto measured = check_exit(1, run({alone.string(), "plan", "job.yaml", "--measure"}, f.folder.path()));
  BOOST_TEST(
      has(measured.err, "troupe plan: the program troupe-train is not in '" + f.folder.path().string() + "': install"),
      measured.err);
}

BOOST_AUTO_TEST_CASE(json_alone_is_the_summary) {
  const command_folder f(smallest);
  const auto did = check_exit(0, f.troupe({"plan", "job.yaml", "--json"}));
  const auto read = nlohmann::json::parse(did.out);
  BOOST_TEST(read.at("ranks") == 2);
  BOOST_TEST(read.at("predicted").at("step_s").get<double>() > 0);
  BOOST_TEST_REQUIRE(read.at("memory").size() == 2U);
  size_t instructions = 0;
  for (const auto& [lane, of] : read.at("lanes").items()) {
    instructions += of.at("instructions").get<size_t>();
    BOOST_TEST(of.at("idle_s").get<double>() <= read.at("predicted").at("step_s").get<double>(), lane);
  }
  BOOST_TEST(instructions == read.at("instructions").get<size_t>());
  BOOST_TEST(read.at("lanes").at("fabric").at("instructions") == read.at("collectives"));
  uint64_t all = 0;
  for (const auto& [owner, bytes] : read.at("memory")[0].at("owners").items()) all += bytes.get<uint64_t>();
  BOOST_TEST(all == read.at("memory")[0].at("total_bytes").get<uint64_t>());
  BOOST_TEST(!read.contains("saving"));
  const auto saves = f.troupe({"plan", "job.yaml", "--json", "--set", "checkpoint.every_steps=2"});
  BOOST_TEST(nlohmann::json::parse(saves.out).contains("saving"));
  BOOST_TEST(f.troupe({"plan", "job.yaml", "--json", "--format", "dot"}).code == 2);
}

BOOST_AUTO_TEST_CASE(a_model_that_is_whole_at_once_says_which_setting_keeps_it_so) {
  const command_folder f(smallest);
  const auto kept =
      check_exit(0, f.troupe({"plan", "job.yaml", "--set", "zero_optimization.stage3_max_reuse_distance=1000000000",
                              "--set", "zero_optimization.stage3_prefetch_bucket_size=10000"}));
  BOOST_TEST(has(kept.out,
                 " parameters whole at once: stage3_max_reuse_distance 1000000000 keeps every unit gathered until its "
                 "next use"),
             kept.out);
  const auto released = f.troupe({"plan", "job.yaml", "--set", "zero_optimization.stage3_prefetch_bucket_size=10000"});
  BOOST_TEST(has(released.out, " parameters whole at once\n"), released.out);
}

BOOST_AUTO_TEST_SUITE_END()
