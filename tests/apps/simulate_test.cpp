// Tests `troupe simulate`: the parts of a step, its agreement with `troupe plan`, faults and what they cost, and the
// refusal of what a job does not have.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/apps/lanes_on_page.hpp"
#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(simulate)

using namespace troupe::tests;
using nlohmann::json;

namespace {

/// Settings with which a segment computes for longer than messages take.
const std::vector<std::string> large = {"--set", "model.n_embd=256", "--set", "model.n_layer=3"};
const std::vector<std::string> piped = {
    "--set", "parallel.pipeline=2",           "--set", "parallel.data=1",
    "--set", "gradient_accumulation_steps=4", "--set", "model.tie_word_embeddings=false"};

finished simulated(const command_folder& f, std::vector<std::string> words) {
  words.insert(words.begin(), {"simulate", "job.yaml"});
  return f.troupe(words);
}

json found(const command_folder& f, std::vector<std::string> words, const std::vector<std::string>& more = large) {
  words.emplace_back("--json");
  words.insert(words.end(), more.begin(), more.end());
  const auto did = check_exit(0, simulated(f, std::move(words)));
  return json::parse(did.out);
}

double sum_of(const json& parts) {
  double out = 0;
  for (const auto& [name, seconds] : parts.items()) {
    BOOST_TEST(seconds.get<double>() >= 0, name);
    out += seconds.get<double>();
  }
  return out;
}

/// Checks that the parts of a run sum to its step, on each rank and in the mean.
void check_sums(const json& run) {
  const double step_s = run.at("step_s");
  BOOST_TEST(std::abs(sum_of(run.at("parts")) - step_s) < 1e-9);
  for (const auto& rank : run.at("parts_of_ranks")) BOOST_TEST(std::abs(sum_of(rank) - step_s) < 1e-9);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_is_divided_into_parts_that_sum_to_it) {
  const command_folder f;
  const auto text = check_exit(0, simulated(f, {}));
  for (const char* part : {"2 ranks on 1 host, 2 steps, seed 0\n", "troupe plan predicts ", "  compute  ", "  update  ",
                           "  in all  ", "MFU ", "  collectives of a step  ", "  activations  "})
    BOOST_TEST(has(text.out, part), part << " is not in\n" << text.out);
  BOOST_TEST(!has(text.out, "pipeline bubble"), text.out);
  BOOST_TEST(!std::filesystem::exists(f.folder / "out"));

  const auto sharded = found(f, {"--steps", "3"});
  check_sums(sharded.at("run"));
  BOOST_TEST(sharded.at("run").at("steps").size() == 3U);
  BOOST_TEST(sharded.at("run").at("parts_of_ranks").size() == 2U);
  BOOST_TEST(sharded.at("run").at("parts").at("bubble_s") == 0);
  BOOST_TEST(sharded.at("mfu").get<double>() > 0.1);
  BOOST_TEST(sharded.at("mfu").get<double>() < 1);
  BOOST_TEST(!sharded.contains("faults"));

  const auto cut = found(f, piped);
  check_sums(cut.at("run"));
  BOOST_TEST(cut.at("run").at("parts").at("bubble_s").get<double>() > 0);
}

BOOST_AUTO_TEST_CASE(what_is_simulated_is_what_is_planned) {
  const command_folder f;
  const auto s = found(f, {"--disk-read", "1"});
  auto words = std::vector<std::string>{"plan", "job.yaml", "--json", "--disk-read", "1"};
  words.insert(words.end(), large.begin(), large.end());
  const auto p = json::parse(check_exit(0, f.troupe(words)).out);
  BOOST_TEST(s.at("predicted_step_s").get<double>() == p.at("predicted").at("step_s").get<double>());
  BOOST_TEST(s.at("run").at("step_s").get<double>() > 0.8 * p.at("predicted").at("step_s").get<double>());
  BOOST_TEST(s.at("run").at("step_s").get<double>() < 1.25 * p.at("predicted").at("step_s").get<double>());
  BOOST_TEST(s.at("rates").at("disk_read_bytes_per_s") == 1e9);
  uint64_t collectives = 0;
  for (const auto& x : s.at("collectives")) collectives += x.at("collectives").get<uint64_t>();
  BOOST_TEST(collectives == p.at("collectives").get<uint64_t>());
  for (const auto& x : s.at("memory")) {
    BOOST_TEST(x.at("peak_bytes").get<uint64_t>() <= x.at("planned_bytes").get<uint64_t>(), x.dump());
    if (x.at("owner") == "in all") continue;
    uint64_t most = 0;
    for (const auto& rank : p.at("memory"))
      most = std::max(most, rank.at("owners").at(x.at("owner").get<std::string>()).get<uint64_t>());
    BOOST_TEST(x.at("planned_bytes") == most, x.dump());
  }
  BOOST_TEST(s.at("memory").back().at("owner") == "in all");
}

BOOST_AUTO_TEST_CASE(the_same_seed_prints_the_same_bytes_and_another_one_is_another_run) {
  const command_folder f;
  const std::vector<std::string> typed = {"--fault", "rank 1 dies at step 2", "--trace", "t.json", "--seed", "7"};
  const auto first = check_exit(0, simulated(f, typed));
  const auto trace = scratch_folder::read(f.folder / "t.json");
  const auto second = check_exit(0, simulated(f, typed));
  BOOST_TEST(first.out == second.out);
  BOOST_TEST(trace == scratch_folder::read(f.folder / "t.json"));
  const auto seconds = [&](const char* seed) { return found(f, {"--seed", seed}).at("run").at("total_s"); };
  BOOST_TEST(seconds("7") == seconds("7"));
  BOOST_TEST(seconds("7") != seconds("8"));
}

BOOST_AUTO_TEST_CASE(a_dead_rank_is_named_with_what_is_lost) {
  const command_folder f;
  const auto text = check_exit(0, simulated(f, {"--fault", "rank 1 dies at step 4"}));
  for (const char* part : {"4 steps, seed 0\n", "fault: rank 1 dies at step 4\n  happened at ", ", in step 4\n",
                           "noticed ", "step 4 fails:\n  ", "rank 1", "cost: there is no whole checkpoint"})
    BOOST_TEST(has(text.out, part), part << " is not in\n" << text.out);

  const auto j = found(f, {"--fault", "rank 1 dies at step 4", "--set", "checkpoint.every_steps=2"}).at("faults");
  BOOST_TEST(j.at("sentences")[0].at("happened") == true);
  const auto& failure = j.at("failure");
  BOOST_TEST(has(failure.at("error").get<std::string>(), "rank 1"));
  BOOST_TEST(failure.at("step") == 4);
  BOOST_TEST(failure.at("resumed_behind_step") == 2);
  BOOST_TEST(failure.at("noticed_after_s").get<double>() >= 0);
  const auto& steps = j.at("steps");
  BOOST_TEST_REQUIRE(steps.size() == 4U);
  BOOST_TEST(steps[2].at("saves") == true);
  BOOST_TEST(steps[2].at("ended_well") == true);
  BOOST_TEST(steps[3].at("ended_well") == false);
  const double lost_s = failure.at("lost_s");
  BOOST_TEST(lost_s > steps[2].at("seconds").get<double>());
  BOOST_TEST(lost_s < j.at("total_s").get<double>());
  // The latest whole checkpoint is that of a step which has ended.
  const auto early = found(f, {"--fault", "rank 0 dies at step 3", "--set", "checkpoint.every_steps=2"});
  BOOST_TEST(early.at("faults").at("failure").at("resumed_behind_step") == 0);
}

BOOST_AUTO_TEST_CASE(what_only_delays_costs_what_it_should) {
  const command_folder f;
  const auto frozen = found(f, {"--fault", "rank 1 freezes at step 2 for 5 s"});
  BOOST_TEST(frozen.at("faults").at("failure").is_null());
  BOOST_TEST(frozen.at("faults").at("more_s").get<double>() > 4.9);
  BOOST_TEST(frozen.at("faults").at("more_s").get<double>() < 5.2);
  check_sums(frozen.at("faults"));
  const auto text = check_exit(0, simulated(f, {"--fault", "rank 1 freezes at step 2 for 5 s"}));
  BOOST_TEST(has(text.out, "the run goes on: no error\ncost: 2 steps take "), text.out);
  BOOST_TEST(has(text.out, "with faults\n"), text.out);

  const auto slow = found(f, {"--fault", "rank 1 is 3 times slower"});
  const auto waiting = [](const json& run) {
    const auto& of = run.at("parts_of_ranks")[0];
    return of.at("waiting_s").get<double>() + of.at("exposed_communication_s").get<double>();
  };
  BOOST_TEST(waiting(slow.at("faults")) > waiting(slow.at("run")) + 0.5 * slow.at("run").at("step_s").get<double>());
}

BOOST_AUTO_TEST_CASE(a_full_disk_and_a_slow_link_are_simulated) {
  const command_folder f;
  const auto full =
      found(f, {"--fault", "the disk is full on rank 1 at step 2", "--set", "checkpoint.every_steps=1"}, {});
  BOOST_TEST(has(full.at("faults").at("failure").at("error").get<std::string>(), "the disk of rank 1 is full"));
  const auto link = found(f, {"--ranks-per-host", "1", "--network", "0.5", "--fault", "link 0-1 is 10 times slower"});
  BOOST_TEST(link.at("hosts") == 2);
  BOOST_TEST(link.at("collectives")[0].at("hosts") == json({0, 1}));
  BOOST_TEST(link.at("faults").at("more_s").get<double>() > 0);
  BOOST_TEST(link.at("faults").at("sentences")[0].at("at_s") == 0);
}

BOOST_AUTO_TEST_CASE(a_trace_shows_every_step_and_the_fault) {
  const command_folder f;
  check_exit(0, simulated(f, {"--trace", "t.json", "--fault", "rank 1 dies when update starts in step 2"}));
  const auto events = json::parse(scratch_folder::read(f.folder / "t.json")).at("traceEvents");
  std::set<int> steps, ranks;
  size_t faults = 0;
  uint64_t most_activations = 0;
  for (const auto& e : events) {
    if (e.at("ph") == "C") {
      for (const auto& [owner, bytes] : e.at("args").items()) BOOST_TEST(bytes.get<int64_t>() >= 0, owner);
      most_activations = std::max(most_activations, e.at("args").at("activations").get<uint64_t>());
    }
    if (e.at("ph") == "i") {
      ++faults;
      BOOST_TEST(e.at("name") == "fault: rank 1 dies when update starts in step 2");
    }
    if (e.at("ph") != "X") continue;
    steps.insert(e.at("args").at("step").get<int>());
    ranks.insert(e.at("pid").get<int>());
    BOOST_TEST(e.at("ts").get<double>() >= 0);
    BOOST_TEST(e.at("dur").get<double>() >= 0);
  }
  BOOST_TEST(faults == 1U);
  uint64_t peak = 0;
  const auto found_peaks = found(f, {}, {}).at("memory");
  for (const auto& x : found_peaks)
    if (x.at("owner") == "activations") peak = x.at("peak_bytes");
  BOOST_TEST(most_activations == peak);
  BOOST_TEST((steps == std::set<int>{0, 1}));
  BOOST_TEST((ranks == std::set<int>{0, 1}));
  const auto nowhere = check_exit(1, simulated(f, {"--trace", "nowhere/t.json"}));
  BOOST_TEST(has(nowhere.err, "nowhere/t.json"), nowhere.err);
}

BOOST_AUTO_TEST_CASE(the_actors_take_what_the_plan_predicts) {
  const command_folder f;
  const std::vector<std::string> kinds[] = {
      {"zero_optimization.stage=0"},
      {"zero_optimization.stage=1"},
      {"zero_optimization.stage=3"},
      {"zero_optimization.stage=3", "parallel.data=8"},
      {"parallel.pipeline=2", "pipeline.schedule=1f1b", "gradient_accumulation_steps=4"},
      {"parallel.pipeline=2", "pipeline.schedule=zb_h1", "gradient_accumulation_steps=4", "zero_optimization.stage=1"},
      {"parallel.tensor=2"},
      {"parallel.context=2"},
      {"parallel.sequence=2"},
      {"activation_checkpointing.enabled=true"},
      {"zero_optimization.offload_optimizer.device=nvme", "zero_optimization.offload_optimizer.nvme_path=."},
      {"zero_optimization.stage=3", "zero_optimization.offload_param.device=nvme",
       "zero_optimization.offload_param.nvme_path=."}};
  for (const auto& kind : kinds) {
    std::vector<std::string> words;
    for (const auto& setting : kind) words.insert(words.end(), {"--set", setting});
    // Work beside which messages are short: a collective starts with the latest of its members' messages, which takes
    // longer than the mean of the prediction.
    for (const char* setting : {"model.n_embd=1024", "model.n_head=8", "train_micro_batch_size_per_gpu=8"})
      words.insert(words.end(), {"--set", setting});
    const auto j = found(f, words, {});
    const double took_s = j.at("run").at("step_s"), predicted_s = j.at("predicted_step_s");
    BOOST_TEST(std::abs(took_s / predicted_s - 1) < 0.01, kind.front() << ": " << took_s << " and " << predicted_s);
  }
}

BOOST_AUTO_TEST_CASE(a_job_with_more_votes_than_a_modelled_collective_moves_is_simulated) {
  const command_folder f;
  const auto large =
      found(f, {"--set", "model.n_embd=4096", "--set", "model.n_head=32", "--set", "model.n_layer=4"}, {});
  BOOST_TEST(large.at("run").at("steps").size() == 2U);
  BOOST_TEST(large.at("run").at("steps")[1].at("ended_well") == true);
}

BOOST_AUTO_TEST_CASE(a_page_draws_what_the_trace_has_and_names_the_fault) {
  const command_folder f;
  const auto did = check_exit(0, simulated(f, {"--trace", "t.json", "--html", "p.html", "--fault",
                                               "rank 1 dies when update starts in step 2"}));
  const auto page = scratch_folder::read(f.folder / "p.html");
  const auto drawn = lanes_on(page);
  BOOST_TEST((drawn.at("ranks") == json({"rank 0", "rank 1"})));
  std::multiset<std::string> in_trace, on_page;
  const auto trace = json::parse(scratch_folder::read(f.folder / "t.json"));
  for (const auto& e : trace.at("traceEvents"))
    if (e.at("ph") == "X")
      in_trace.insert(fmt::format("{} {}", e.at("pid").get<int>(), e.at("name").get<std::string>()));
  for (const auto& row : drawn.at("rows"))
    for (size_t i = 2; i < row[3].size(); i += 4)
      on_page.insert(
          fmt::format("{} {}", row[0].get<int>(), drawn.at("works")[row[3][i].get<size_t>()][0].get<std::string>()));
  BOOST_TEST((on_page == in_trace));
  std::vector<std::string> marks;
  for (const auto& m : drawn.at("marks")) marks.push_back(m[1]);
  BOOST_TEST(
      (marks == std::vector<std::string>{"step 1", "step 2", "fault: rank 1 dies when update starts in step 2"}));
  for (const char* part : {"<h1>Simulated: job.yaml</h1>", "2 ranks on 1 host, 2 steps, seed 0; a step takes ",
                           "<h2>Where a step goes</h2>", "<td>compute</td>", "<td>in all</td>", "<h2>Collectives</h2>",
                           "<h2>Memory by owner</h2>", "<td>activations</td>", "step 2 fails:"})
    BOOST_TEST(has(page, part), part << " is missing");
  BOOST_TEST(!has(page, "http:"));
  BOOST_TEST(!has(page, "https:"));
  const auto nowhere = check_exit(1, simulated(f, {"--html", "nowhere/p.html"}));
  BOOST_TEST(has(nowhere.err, "nowhere/p.html"), nowhere.err);
  const auto idle = check_exit(2, simulated(f, {"--hardware", "h100", "--search", "--html", "p.html"}));
  BOOST_TEST(has(idle.err, "--html would do nothing here"), idle.err);
}

BOOST_AUTO_TEST_CASE(a_page_of_many_ranks_draws_those_that_act_and_opens_in_a_browser) {
  const command_folder f;
  std::filesystem::copy(std::filesystem::path(troupe::places::source_dir) / "examples/gpt_175b.yaml",
                        f.folder / "gpt.yaml");
  check_exit(0, f.troupe({"simulate", "gpt.yaml", "--html", "p.html"}));
  const auto page = scratch_folder::read(f.folder / "p.html");
  BOOST_TEST(page.size() < 4'000'000U);
  BOOST_TEST(has(page, "2 of 4096 ranks act, and are drawn; the others do the same at the same time."));
  const auto drawn = lanes_on(page);
  BOOST_TEST(drawn.at("ranks").size() == 2U);
  BOOST_TEST(has(drawn.at("ranks")[0].get<std::string>(), " like it"), drawn.at("ranks").dump());
  check_in_browser(f, "p.html");
}

BOOST_AUTO_TEST_CASE(a_job_of_many_ranks_is_simulated_by_classes_of_them) {
  const command_folder f;
  const auto text = check_exit(0, simulated(f, {"--ranks", "96", "--trace", "t.json"}));
  BOOST_TEST(has(text.out, "96 ranks on 1 host, simulated as "), text.out);
  std::set<int> acting;
  const auto trace = json::parse(scratch_folder::read(f.folder / "t.json"));
  for (const auto& e : trace.at("traceEvents"))
    if (e.at("ph") == "X") acting.insert(e.at("pid").get<int>());
  const auto j = found(f, {"--ranks", "96", "--fault", "rank 77 dies at step 2"}, {});
  BOOST_TEST(j.at("ranks") == 96);
  const auto& run = j.at("run");
  check_sums(run);
  BOOST_TEST(run.at("parts_of_ranks").size() == 96U);
  BOOST_TEST(run.at("classes").get<size_t>() == acting.size());
  BOOST_TEST(run.at("classes").get<size_t>() < 96U);
  BOOST_TEST(run.at("step_s").get<double>() > 0.8 * j.at("predicted_step_s").get<double>());
  BOOST_TEST(j.at("faults").at("classes").get<size_t>() >= run.at("classes").get<size_t>());
  BOOST_TEST(has(j.at("faults").at("failure").at("error").get<std::string>(), "rank 77"));
  // A late message, which the seed draws, sets all ranks apart.
  const auto late = found(f, {"--ranks", "96", "--fault", "a message is 1 ms late at step 2"}, {});
  BOOST_TEST(late.at("faults").at("classes") == 96);
  const auto few = found(f, {"--ranks", "4"}, {});
  BOOST_TEST(few.at("run").at("classes") == 4);
  const auto odd = check_exit(2, simulated(f, {"--ranks", "5", "--set", "parallel.tensor=2"}));
  BOOST_TEST(has(odd.err, "--ranks: wanted a multiple of 2"), odd.err);
}

BOOST_AUTO_TEST_CASE(a_network_decides_the_times_of_collectives_and_shows_its_busiest_links) {
  const command_folder f;
  const auto text = check_exit(0, simulated(f, {"--network", "ethernet_10g"}));
  for (const char* part :
       {"2 ranks on 2 hosts, ", "network ethernet_10g: 2 nodes, 2 devices\n", "  busiest links of a step  ",
        "  node0.device0 to ethernet  ", "the link from node0.device0 to ethernet bounds the step most: "})
    BOOST_TEST(has(text.out, part), part << " is not in\n" << text.out);
  BOOST_TEST(!has(text.out, "between hosts"), text.out);
  BOOST_TEST(!found(f, {}).contains("links"));
  for (const char* name : {"dgx_a100", "dgx_b200", "dgx_h100", "ethernet_10g", "h100_512"}) {
    const auto j = found(f, {"--network", name});
    BOOST_TEST_CONTEXT(name) {
      check_sums(j.at("run"));
      BOOST_TEST(j.at("network").at("name") == std::string(name));
      BOOST_TEST(j.at("hosts") == (std::string(name) == "ethernet_10g" ? 2 : 1));
      const auto& links = j.at("links");
      // Two devices have two links and their other directions.
      BOOST_TEST(links.size() == 4U);
      for (size_t i = 0; i < links.size(); ++i) {
        const double bytes = links[i].at("bytes"), rate = links[i].at("bytes_per_s"), busy_s = links[i].at("busy_s");
        BOOST_TEST(bytes > 0);
        BOOST_TEST(std::abs(busy_s - bytes / rate) <= 1e-12);
        BOOST_TEST(links[i].at("oversubscribed") == false);
        if (i > 0) BOOST_TEST(busy_s <= links[i - 1].at("busy_s").get<double>() + 1e-12);
      }
    }
  }

  const auto network = [&](const char* name, const char* bytes_per_s, const char* oversubscription) {
    f.folder.write(name,
                   std::string("kind: network\nnodes: [{name: box, count: as_needed, devices: 2, switches: [{name: "
                               "hub") +
                       oversubscription +
                       "}]}]\nswitches: [{name: spine}]\nlinks:\n"
                       "  - {from: box(n).device(d), to: box(n).hub, bandwidth_bytes_per_s: 1.0e+9, latency_s: "
                       "1.0e-6, direction: both}\n"
                       "  - {from: box(n).hub, to: spine, bandwidth_bytes_per_s: " +
                       bytes_per_s + ", latency_s: 1.0e-6, direction: both}\n");
    return found(f, {"--network", name, "--ranks", "4", "--fault", "link 0-1 is 10 times slower"});
  };
  const auto fast = network("fast.yaml", "1.0e+9", ""), slow = network("slow.yaml", "1.0e+7", ""),
             limited = network("limited.yaml", "1.0e+9", ", oversubscription: 200");
  const auto step_s = [](const json& j) { return j.at("run").at("step_s").get<double>(); };
  BOOST_TEST(step_s(slow) > step_s(fast));
  BOOST_TEST(step_s(limited) > step_s(fast));
  for (const auto& j : {fast, slow, limited}) {
    BOOST_TEST(j.at("hosts") == 2);
    BOOST_TEST(j.at("network").at("devices") == 4);
    BOOST_TEST(j.at("faults").at("more_s").get<double>() > 0);
    BOOST_TEST(j.at("links").size() == 10U);
  }
  // An uplink of 10 MB/s, or one that may carry that much of 1 GB/s, bounds the step.
  for (const auto& j : {slow, limited}) {
    const std::string from = j.at("links")[0].at("from"), to = j.at("links")[0].at("to");
    BOOST_TEST((from == "spine" || to == "spine"), from << " to " << to);
  }
  BOOST_TEST(limited.at("links")[0].at("oversubscribed") == true);

  const auto many = found(f, {"--network", "dgx_h100", "--ranks", "96"}, {});
  BOOST_TEST(many.at("hosts") == 12);
  BOOST_TEST(many.at("network").at("nodes") == 12);
  BOOST_TEST(many.at("run").at("classes").get<size_t>() < 96U);
  check_sums(many.at("run"));
  BOOST_TEST(many.at("links").size() == 10U);
}

BOOST_AUTO_TEST_CASE(what_a_job_does_not_have_is_refused_before_anything_runs) {
  const command_folder f;
  f.folder.write("one.yaml", "kind: network\nnodes: [{name: box, devices: 1}]\n");
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--fault", "rank 3 explodes"}, "--fault 'rank 3 explodes': wanted 'dies', "},
      {{"--fault", "rank 2 dies"}, "--fault 'rank 2 dies': fault kill rank 2: wanted one of 2 ranks, got rank 2"},
      {{"--fault", "rank 1 dies at step 7"}, "--fault 'rank 1 dies at step 7': wanted one of the job's 6 steps"},
      {{"--steps", "2", "--fault", "rank 1 dies at step 3"}, "wanted one of the steps 1 to 2, got 3"},
      {{"--steps", "7"}, "--steps: wanted at most the job's 6 steps, got 7"},
      {{"--steps", "0"}, "--steps"},
      {{"--fault", "link 0-1 is 10 times slower"}, "wanted one of 1 hosts"},
      {{"--fault", "instruction updat 0 is lost"}, "the nearest one is 'update"},
      {{"--fault", "instruction vote is 10 ms late"}, "a collective takes the time of its link"},
      {{"--fault", "the disk is full at step 2"}, "the rank writes to no disk"},
      {{"--ranks-per-host", "3"}, "--ranks-per-host: wanted a divisor of the job's 2 ranks, got 3"},
      {{"--network", "1"}, "--network would do nothing here"},
      {{"--network", "0"}, "--network: wanted a number above 0, got 0"},
      {{"--network", "dgx"},
       "--network: wanted GB/s above 0 or a network, one of "
       "{dgx_a100,dgx_b200,dgx_h100,ethernet_10g,h100_512,FILE.yaml}, "
       "got dgx"},
      {{"--network", "1", "--network", "dgx_h100"}, "--network"},
      {{"--network", "none.yaml"}, "none.yaml"},
      {{"--network", "job.yaml"}, "job.yaml:1: model: unknown key, the nearest is nodes"},
      {{"--network", "one.yaml"}, "--network: one.yaml: wanted a device for each of the job's 2 ranks, got 1 devices"},
      {{"--network", "dgx_h100", "--ranks-per-host", "1"},
       "--ranks-per-host cannot be combined with the network dgx_h100, whose nodes are the hosts"},
      {{"--network", "dgx_h100", "--fault", "link 0-1 is 10 times slower"}, "wanted one of 1 hosts"},
      {{"--network", "dgx_h100", "--set", "cluster.hosts=[{name: a}, {name: b}]", "--set",
        "cluster.listen=10.0.0.1:4472", "--set", "cluster.tls.ca=a", "--set", "cluster.tls.certificate=c", "--set",
        "cluster.tls.key=k"},
       "wanted nodes like cluster.hosts, with 1 ranks each; between rank 0 and rank 1 only one of both has a border"},
      {{"--html", ""}, "wanted a path or a text, got nothing"},
      {{"--set", "cluster.host_memory_budget=100000"}, "budget"},
      {{"--set", "no_such_key=1"}, "no_such_key"},
      {{"--steps", "1000000", "--set", "steps=2000000"}, "--steps: wanted at most 4000000 instructions in all steps"},
  };
  for (const auto& [words, why] : wrong) {
    auto typed = words;
    typed.insert(typed.end(), {"--trace", "t.json"});
    const auto did = simulated(f, typed);
    BOOST_TEST(did.code != 0, why);
    BOOST_TEST(did.out.empty(), did.out);
    BOOST_TEST(has(did.err, why), did.err);
    BOOST_TEST(!std::filesystem::exists(f.folder / "t.json"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
