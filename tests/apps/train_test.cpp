// Tests `troupe train` as a user and as a script see it.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/system/instruction_path.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(train)

using namespace troupe::tests;
using nlohmann::json;

namespace {

std::vector<json> events_of(const std::string& out) {
  std::vector<json> events;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  return events;
}

std::string shortest(double x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

// Returns a function that simulates a full disk for a process: it limits every file to `bytes` bytes.
std::function<void()> files_at_most(rlim_t bytes) {
  return [bytes] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
}

// A job whose steps take so long that a signal can arrive within a step.
const std::string slow =
    replaced(replaced(smallest, "n_layer: 2, n_embd: 64, n_head: 4", "n_layer: 4, n_embd: 256, n_head: 4"), "steps: 6",
             "steps: 100000");

}  // namespace

BOOST_AUTO_TEST_CASE(json_is_one_object_a_line_and_its_numbers_round_trip) {
  const command_folder f;
  const auto r = check_exit(
      0, f.troupe({"train", "job.yaml", "--json", "--set", "zero_optimization.stage3_prefetch_bucket_size=0"}));
  const auto events = events_of(r.out);
  BOOST_TEST_REQUIRE(events.size() == 7U);
  for (size_t i = 0; i < 6; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto& e = events[i];
    BOOST_TEST(e.at("event") == "step");
    BOOST_TEST(e.at("step") == i + 1);
    BOOST_TEST(e.at("skipped") == false);
    BOOST_TEST(e.at("lr") == 1e-3);
    for (const char* key : {"loss", "grad_norm", "tokens_per_s"})
      BOOST_TEST_CONTEXT(key) BOOST_TEST(e.at(key).get<double>() > 0);
    BOOST_TEST(has(r.out, "\"loss\":" + shortest(e.at("loss").get<double>()) + ","));
    BOOST_TEST(has(r.out, "\"grad_norm\":" + shortest(e.at("grad_norm").get<double>()) + ","));
  }
  const auto& end = events.back();
  BOOST_TEST(end.at("event") == "end");
  BOOST_TEST(end.at("steps") == 6);
  BOOST_TEST(end.at("stopped") == false);
  BOOST_TEST(end.at("loss") == events[5].at("loss"));
  BOOST_TEST(end.at("gathers").get<int>() > 0);
  BOOST_TEST(end.at("gathers") == end.at("releases"));
  BOOST_TEST(end.at("peak_live_parameters").get<int>() < end.at("model_parameters").get<int>());
  const auto& memory = end.at("memory").at("host");
  BOOST_TEST_REQUIRE(memory.size() == 2U);
  for (const auto& rank : memory) {
    BOOST_TEST(rank.at("gathered").get<uint64_t>() > 0U);
    BOOST_TEST(rank.at("activations_peak").get<uint64_t>() > 0U);
    uint64_t sum = 0;
    for (const char* owner :
         {"parameters", "gathered", "master", "moments", "gradients", "accumulated", "votes", "activations_peak"})
      sum += rank.at(owner).get<uint64_t>();
    BOOST_TEST(rank.at("total") == sum);
  }
  BOOST_TEST(std::filesystem::exists(f.folder / "out/config.yaml"));
  BOOST_TEST(json::parse(scratch_folder::read(f.folder / "out/trace.json")).at("traceEvents").size() > 10U);
}

BOOST_AUTO_TEST_CASE(the_end_says_where_a_step_s_time_went) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--json"}));
  const auto end = events_of(r.out).back();
  const auto& control = end.at("control");
  for (const char* key : {"idle_s", "no_core_s", "in_lane_us", "cross_lane_us"})
    BOOST_TEST(control.at(key).get<double>() >= 0, key);
  BOOST_TEST(control.at("between_s").get<double>() > 0);
  BOOST_TEST(control.at("idle_share").get<double>() < 1);
  BOOST_TEST(control.at("cross_lane_p99_us").get<double>() >= control.at("cross_lane_us").get<double>());
  const auto& work = end.at("work");
  std::map<std::string, double> busy_s;
  for (const auto& row : work.at("kinds")) {
    BOOST_TEST(row.at("count").get<int>() > 0);
    busy_s[row.at("kind")] = row.at("busy_s");
  }
  for (const char* kind : {"load", "gather", "release", "forward", "backward", "reduce", "norm", "vote", "update"})
    BOOST_TEST(busy_s.contains(kind), kind);
  double forward_s = 0;
  for (const auto& u : work.at("units")) {
    forward_s += u.at("forward_s").get<double>();
    BOOST_TEST(u.at("backward_flops") == 2 * u.at("forward_flops").get<double>());
  }
  BOOST_TEST(forward_s == busy_s["forward"], boost::test_tools::tolerance(1e-9));
  const auto said = check_exit(0, f.troupe({"train", "job.yaml", "-v", "--set", "output=again"}));
  for (const char* line : {"memory by owner", " gathers and ", "trace: ", "exposed", "control: compute idle",
                           "where a step's time goes", "  forward ", "  head "})
    BOOST_TEST(has(said.out, line), line << " is not in " << said.out);
}

BOOST_AUTO_TEST_CASE(the_effective_configuration_repeats_the_run) {
  const command_folder f;
  const auto first = events_of(f.troupe({"train", "job.yaml", "--json", "--set", "seed=5", "--steps", "2"}).out);
  const auto again = events_of(f.troupe({"train", "out/config.yaml", "--json", "--set", "output=again"}).out);
  BOOST_TEST_REQUIRE(first.size() == 3U);
  BOOST_TEST_REQUIRE(again.size() == 3U);
  for (size_t i = 0; i < 2; ++i) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(first[i].at("loss") == again[i].at("loss"));
}

BOOST_AUTO_TEST_CASE(options_override_the_file) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", "3", "--set",
                                         "zero_optimization.stage=1", "--set", "optimizer.params.lr=2.0e-3"}));
  const auto events = events_of(r.out);
  BOOST_TEST_REQUIRE(events.size() == 4U);
  BOOST_TEST(events[0].at("lr") == 2e-3);
  BOOST_TEST(events.back().at("gathers") == 0);
}

BOOST_AUTO_TEST_CASE(quiet_prints_the_last_line_alone_and_plain_lines_end_with_it) {
  const command_folder f(smallest + "evaluation: {every_steps: 3, batches: 2}\nsample: {tokens: 8}\n");
  const std::string set = "--set", validation = "data.validation_fraction=0.1";
  const auto quiet = check_exit(0, f.troupe({"train", "job.yaml", "--quiet", set, validation}));
  BOOST_TEST(lines_of(quiet.out) == 1U, quiet.out);
  BOOST_TEST(quiet.out.starts_with("validation loss "), quiet.out);
  BOOST_TEST(has(quiet.out, " nats/byte after 6 steps, "), quiet.out);

  const auto plain = check_exit(0, f.troupe({"train", "job.yaml", set, validation}));
  BOOST_TEST(!has(plain.out, "\r"));
  for (const char* part : {"step 1/6  loss ", "step 6/6  loss ", "step 3: validation loss ", "train loss ",
                           "hidden behind compute: gathers ", "memory: at most ", "model: not kept; --export FOLDER",
                           "report: ", "sample: "})
    BOOST_TEST(has(plain.out, part), part << " is missing in\n" << plain.out);
  BOOST_TEST(!has(plain.out, "memory by owner"), plain.out);
  const auto begin = plain.out.find("\ntrain loss ") + 1;
  BOOST_TEST(lines_of(plain.out.substr(begin, plain.out.find("sample: ") - begin)) <= 8U, plain.out);
  const auto last = plain.out.rfind('\n', plain.out.size() - 2);
  BOOST_TEST(plain.out.substr(last + 1).starts_with("validation loss "));

  const auto scripted = events_of(f.troupe({"train", "job.yaml", "--json", set, validation}).out);
  BOOST_TEST_REQUIRE(scripted.size() == 9U);
  BOOST_TEST(scripted[3].at("event") == "evaluation");
  BOOST_TEST(scripted[7].at("event") == "evaluation");
  BOOST_TEST(scripted.back().at("validation_loss") == scripted[7].at("loss"));
  BOOST_TEST(scripted.back().at("sample").get<std::string>().size() >= 8U);
}

// A learning rate of 0 keeps the weights, so that only other windows could change a loss.
BOOST_AUTO_TEST_CASE(every_evaluation_takes_the_same_windows_the_last_one_too) {
  const command_folder f;
  const auto losses = [&](const std::string& batches) {
    const auto did = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--fresh", "--set", "optimizer.params.lr=0",
                                             "--set", "data.validation_fraction=0.2", "--set",
                                             "evaluation.every_steps=2", "--set", "evaluation.batches=" + batches}));
    std::vector<double> out;
    for (const auto& event : events_of(did.out))
      if (event.at("event") == "evaluation") out.push_back(event.at("loss").get<double>());
    BOOST_TEST_REQUIRE(out.size() == 3U, did.out);
    BOOST_TEST(out[1] == out[0]);
    BOOST_TEST(out[2] == out[0]);
    return out;
  };
  BOOST_TEST(losses("2").back() != losses("0").back());
}

BOOST_AUTO_TEST_CASE(each_validation_set_is_evaluated_told_recorded_and_saved_by_its_name) {
  const command_folder f;
  f.folder.write("one.txt", made_up_text(3000));
  f.folder.write("two.jsonl", R"({"body": ")" + made_up_text(1000) + "\"}\n");
  const std::string sets = "data.validation={one: one.txt, two: two.jsonl}", every = "evaluation.every_steps=3";
  std::vector<std::string> command{"train", "job.yaml", "--json"};
  for (const std::string& set :
       {sets, every, std::string("data.text_key=body"), std::string("checkpoint.every_steps=6"),
        std::string("csv_monitor={enabled: true, output_path: curves, job_name: csv}")})
    command.insert(command.end(), {"--set", set});
  const auto did = check_exit(0, f.troupe(command));
  std::vector<json> told;
  for (const auto& event : events_of(did.out))
    if (event.at("event") == "evaluation") told.push_back(event);
  BOOST_TEST_REQUIRE(told.size() == 4U, did.out);
  for (size_t i = 0; i < 4; ++i) {
    BOOST_TEST(told[i].at("set") == (i % 2 == 0 ? "one" : "two"));
    BOOST_TEST(told[i].at("step") == (i < 2 ? 3 : 6));
  }
  BOOST_TEST(told[2].at("loss") != told[3].at("loss"));
  // The first set is the validation loss of the run.
  BOOST_TEST(events_of(did.out).back().at("validation_loss") == told[2].at("loss"));
  const auto inspected = check_exit(0, f.troupe({"checkpoint", "inspect", "--json", "out/checkpoints"}));
  const auto saved = json::parse(inspected.out)["run"]["data"]["validation"];
  BOOST_TEST_REQUIRE(saved.size() == 2U, inspected.out);
  BOOST_TEST((saved[0]["set"] == "one" && saved[0]["tokens"] == 3000));
  BOOST_TEST(saved[1]["set"] == "two");
  BOOST_TEST(lines_of(scratch_folder::read(f.folder / "curves/csv/Validation_one_loss.csv")) == 3U);
  BOOST_TEST(lines_of(scratch_folder::read(f.folder / "curves/csv/Validation_two_loss.csv")) == 3U);
  // The effective configuration has the sets.
  const auto again = check_exit(0, f.troupe({"train", "out/config.yaml", "--json", "--set", "output=again", "--set",
                                             "csv_monitor.enabled=false"}));
  BOOST_TEST(events_of(again.out).back().at("validation_loss") == told[2].at("loss"));
  // With a held-out part the sets come after it, and none has its name.
  const auto three =
      check_exit(0, f.troupe({"train", "job.yaml", "--set", sets, "--set", "data.validation_fraction=0.1", "--set",
                              "data.text_key=body", "--set", "output=three"}));
  BOOST_TEST(has(three.out, " (one)\n"), three.out);
  BOOST_TEST(has(three.out, " (two)\n"), three.out);
  const auto held = three.out.find("step 6: validation loss "), one = three.out.find(" (one)");
  BOOST_TEST((held < three.out.find('\n', held) && three.out.find('\n', held) < one), three.out);
}

BOOST_AUTO_TEST_CASE(the_end_says_where_the_model_is_and_which_command_goes_on_with_it) {
  const command_folder f;
  const auto saved = check_exit(0, f.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=3"}));
  BOOST_TEST(has(saved.out, "model: "), saved.out);
  const auto next = saved.out.find("next: troupe checkpoint to-hf ");
  BOOST_TEST_REQUIRE(next != std::string::npos, saved.out);
  // The command that the message names must work as printed.
  std::istringstream words(saved.out.substr(next + 13, saved.out.find('\n', next) - next - 13));
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  BOOST_TEST(f.troupe(command).code == 0);
  const auto exported = f.troupe({"train", "job.yaml", "--set", "output=again", "--export", "a folder"});
  BOOST_TEST(has(exported.out, "model: a folder\nnext: troupe checkpoint to-gguf 'a folder' model.gguf\n"),
             exported.out);
  // A run with no steps left must also export, and print the folder.
  const auto over = check_exit(0, f.troupe({"train", "job.yaml", "--export", "later"}));
  BOOST_TEST(has(over.out, "model: later\nnext: troupe checkpoint to-gguf later model.gguf\n"), over.out);
  BOOST_TEST(has(over.out, "done after 6 steps, all of them before this run"), over.out);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_stopped_says_where_it_has_exported_the_weights) {
  for (const auto& [more, next] :
       {std::pair("", "next: troupe checkpoint to-gguf hf model.gguf\n"),
        {"checkpoint: {every_steps: 1000000}\n", "next: the same command resumes after step "}}) {
    const command_folder f(slow + more);
    process p({troupe::places::troupe_binary, "train", "job.yaml", "--export", "hf"}, f.folder.path());
    BOOST_TEST_REQUIRE(p.wait_for("step 1/"));
    p.send(SIGINT);
    const auto r = check_exit(130, p.end());
    BOOST_TEST(has(r.out, "model: hf\n"), r.out);
    BOOST_TEST(has(r.out, next), r.out);
    BOOST_TEST(std::filesystem::exists(f.folder / "hf/model.safetensors"));
  }
}

BOOST_AUTO_TEST_CASE(a_sample_that_prints_nothing_says_why) {
  command_folder f(smallest + "sample: {tokens: 8}\n");
  f.folder.write("tokens.bin", std::string(20000, '\1'));
  const auto unknown =
      check_exit(0, f.troupe({"train", "job.yaml", "--set", "data.text=tokens.bin", "--set", "model.vocab_size=258"}));
  BOOST_TEST(has(unknown.out, "sample: none, since the tokenizer of the tokens is not known: set data.tokenizer"),
             unknown.out);
  const auto empty =
      check_exit(0, f.troupe({"train", "job.yaml", "--set", "sample.prompt=\"\"", "--set", "output=again"}));
  BOOST_TEST(has(empty.out, "sample: none, since sample.prompt is empty"), empty.out);
}

BOOST_AUTO_TEST_CASE(a_run_whose_every_step_was_skipped_ends_with_a_word_and_a_code) {
  const command_folder f;
  const auto did = f.troupe({"train", "job.yaml", "--set", "fp16.enabled=true", "--set", "fp16.loss_scale=1.0e+30"});
  BOOST_TEST(did.code == 1, did.out);
  BOOST_TEST(has(did.err,
                 "nothing was trained: gradients of all 6 steps were not finite, so that each was skipped; "
                 "set a smaller fp16.loss_scale than 1e+30"),
             did.err);
  BOOST_TEST(has(did.out, "skipped: 6 of 6 steps"), did.out);
}

BOOST_AUTO_TEST_CASE(a_parameter_group_that_earlier_ones_leave_nothing_is_named) {
  const command_folder f(smallest + "parameter_groups: [{match: 'weight', lr: 1.0e-4}, {match: 'wte', lr: 1.0e-5}]\n");
  const auto checked = check_exit(0, f.troupe({"config", "check", "job.yaml"}));
  BOOST_TEST(has(checked.out + checked.err,
                 "warning: parameter_groups[1].match: no effect: the 1 parameter that it "
                 "matches, such as transformer.wte.weight, belong to earlier groups"),
             checked.out + checked.err);
}

BOOST_AUTO_TEST_CASE(a_resume_that_trains_what_was_frozen_says_how_far_its_first_update_goes) {
  command_folder f(smallest + "checkpoint: {every_steps: 3}\nparameter_groups: [{match: 'wpe', trainable: false}]\n");
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--steps", "3", "--quiet"}).code == 0);
  f.folder.write("all.yaml", smallest + "checkpoint: {every_steps: 3}\n");
  const auto did = check_exit(0, f.troupe({"train", "all.yaml", "--quiet"}));
  BOOST_TEST(has(did.err,
                 "1 parameter, as transformer.wpe.weight, was frozen until now: their moments begin at 0 while bias "
                 "correction counts the run's 3 updates, so that their first update is 0.58 times the learning "
                 "rate"),
             did.err);
}

BOOST_AUTO_TEST_CASE(a_run_whose_checkpoints_leave_out_frozen_parameters_resumes_and_exports_the_whole_model) {
  const command_folder f(smallest +
                         "checkpoint: {every_steps: 3, exclude_frozen_parameters: true}\n"
                         "parameter_groups: [{match: 'wpe', trainable: false}]\n");
  const auto first = check_exit(0, f.troupe({"train", "job.yaml", "--steps", "3"}));
  BOOST_TEST(has(first.out, "next: the same command with --export FOLDER writes the whole model"), first.out);
  BOOST_TEST(!has(first.out, "to-hf"), first.out);
  const std::string left_out =
      "leaves out 1 frozen parameter, such as transformer.wpe.weight (checkpoint.exclude_frozen_parameters)";
  for (const char* processes : {"one", "ranks"}) {
    BOOST_TEST_INFO_SCOPE(processes);
    const auto again =
        check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--steps", processes == std::string("one") ? "4" : "6",
                                "--set", std::string("cluster.processes=") + processes}));
    BOOST_TEST(has(again.err, left_out + ": their values are those that seed 1 gives, as at the start of the run"),
               again.err);
  }
  // The frozen parameter must have the bits of a run that was not interrupted.
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--export", "resumed"}));
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--set", "output=whole", "--export", "whole_model"}));
  const auto weights_in = [&](const char* folder) {
    return scratch_folder::read(f.folder.path() / folder / "model.safetensors");
  };
  BOOST_TEST((weights_in("resumed") == weights_in("whole_model")));
  // A parameter that was trained before it was frozen must not have its initial value.
  const std::vector<std::string> trained = {"train", "job.yaml", "--quiet", "--set", "output=trained", "--set"};
  const auto with = [&](const std::string& set, const char* steps) {
    auto words = trained;
    words.insert(words.end(), {set, "--steps", steps});
    return f.troupe(words);
  };
  BOOST_TEST(with("parameter_groups=[]", "3").code == 0);
  const auto late = check_exit(1, with("seed=1", "6"));
  BOOST_TEST(has(late.err, "holds the frozen parameter transformer.wpe.weight, which the run's next checkpoints would"),
             late.err);
  BOOST_TEST(with("checkpoint.exclude_frozen_parameters=false", "6").code == 0);
  const auto lost =
      check_exit(1, f.troupe({"train", "job.yaml", "--quiet", "--changed-seed", "--set", "seed=2", "--steps", "7"}));
  BOOST_TEST(has(lost.err, left_out + ", and seed is 2, was 1; set checkpoint.load.strict: false (--no-load-strict)"),
             lost.err);
}

BOOST_AUTO_TEST_CASE(a_terminal_sees_a_bar) {
  const command_folder f;
  // The program `script` of util-linux provides a terminal.
  const auto r = check_exit(
      0, run({"/usr/bin/script", "-qec", std::string(troupe::places::troupe_binary) + " train job.yaml", "/dev/null"},
             f.folder.path()));
  for (int step = 1; step <= 6; ++step)
    BOOST_TEST_CONTEXT("step " << step) BOOST_TEST(has(r.out, fmt::format("] step {}/6  loss ", step)), r.out);
  for (const char* part : {"\r\033[K[", "tok/s", "MiB", "ETA "})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(r.out, part), r.out);
}

BOOST_AUTO_TEST_CASE(an_export_opens_again) {
  const command_folder f;
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--export", "hf"}).code == 0);
  f.folder.write("next.yaml", replaced(smallest, smallest.substr(0, smallest.find('\n')), "model: {path: hf}"));
  const auto r = check_exit(0, f.troupe({"train", "next.yaml", "--quiet", "--steps", "1"}));
  BOOST_TEST(has(r.out, "done after 1 steps"), r.out);
}

BOOST_AUTO_TEST_CASE(the_first_line_says_which_instructions_are_used) {
  const command_folder f;
  const auto r = f.troupe({"train", "job.yaml", "--steps", "1"}, [] { ::setenv("ATEN_CPU_CAPABILITY", "default", 1); });
  BOOST_TEST(r.code == 0, r.err);
  const std::string path = troupe::core::kernel_instructions();
  const std::string shown = path == "no vectors" || path == "NEON" ? path : path + ", LibTorch no vectors";
  BOOST_TEST(has(r.out.substr(0, r.out.find('\n')), "resident on rank 0, " + shown), r.out);
}

BOOST_AUTO_TEST_CASE(one_interrupt_finishes_the_step_and_ends_with_its_code) {
  const command_folder f(slow);
  process p({troupe::places::troupe_binary, "train", "job.yaml"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("step 1/"));
  p.send(SIGINT);
  const auto r = check_exit(130, p.end());
  BOOST_TEST(has(r.out, "stopped after "), r.out);
  BOOST_TEST(std::filesystem::exists(f.folder / "out/config.yaml"));
}

BOOST_AUTO_TEST_CASE(an_interrupted_script_is_told_so) {
  const command_folder f(slow + "checkpoint: {every_steps: 1000000}\n");
  process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":1,"));
  p.send(SIGTERM);
  const auto r = check_exit(143, p.end());
  const auto events = events_of(r.out);
  BOOST_TEST(events.back().at("stopped") == true);
  BOOST_TEST(events.back().at("checkpoints").at("written") == 1);
  // The list has one event for each step, one for the checkpoint and one for the end.
  BOOST_TEST(events.back().at("steps") == events.size() - 2);
}

// The process is stopped in the middle of a step, for longer than the limit after which a rank counts as stalled.
BOOST_AUTO_TEST_CASE(a_run_that_is_stopped_and_continued_trains_on) {
  const command_folder f(slow + "gradient_accumulation_steps: 8\ncluster: {stall_after: 200ms}\n");
  process p({troupe::places::troupe_binary, "train", "job.yaml"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("step 1/"));
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    p.send(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    p.send(SIGCONT);
    BOOST_TEST_REQUIRE(p.wait_for_work(std::chrono::milliseconds(100)));
  }
  p.send(SIGINT);
  const auto r = check_exit(130, p.end());
  BOOST_TEST(has(r.out, "stopped after "), r.out);
}

BOOST_AUTO_TEST_CASE(two_interrupts_end_at_once) {
  // The step has hundreds of micro-batches, so the run can end soon only if it stops within the step.
  const command_folder f(slow + "gradient_accumulation_steps: 400\n");
  process p({troupe::places::troupe_binary, "train", "job.yaml"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("instructions a step"));
  BOOST_TEST_REQUIRE(p.wait_for_work(std::chrono::milliseconds(300)));  // the step has begun by then
  p.send(SIGINT);
  BOOST_TEST_REQUIRE(p.wait_for_error("ends after this step"));
  // Signals within a second count as one request, so the test waits longer.
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  p.send(SIGTERM);
  const auto r = p.end(std::chrono::seconds(20));
  BOOST_TEST(!has(r.out, "step 1/"), r.out);
  BOOST_TEST(r.code == 130, r.err);
  BOOST_TEST(has(r.err, "interrupted twice"), r.err);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_an_error_and_leaves_no_half_of_a_file) {
  const command_folder f;
  const auto r = f.troupe({"train", "job.yaml", "--quiet", "--steps", "1", "--export", "hf"}, files_at_most(100000));
  BOOST_TEST(r.code == 3);  // the step is done, but its weights were not exported
  BOOST_TEST(sentences_of(r.err) == 1U, r.err);
  BOOST_TEST(has(r.err, "troupe: error: "), r.err);
  BOOST_TEST(!std::filesystem::exists(f.folder / "hf/model.safetensors"));
  if (std::filesystem::exists(f.folder / "hf")) BOOST_TEST(std::filesystem::is_empty(f.folder / "hf"));

  const auto config =
      check_exit(1, f.troupe({"train", "job.yaml", "--quiet", "--set", "output=elsewhere"}, files_at_most(100)));
  BOOST_TEST(sentences_of(config.err) == 1U, config.err);
  BOOST_TEST(!std::filesystem::exists(f.folder / "elsewhere"));
}

BOOST_AUTO_TEST_CASE(a_trace_that_cannot_be_written_is_a_warning) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}, files_at_most(8000)));
  BOOST_TEST(has(r.err, "troupe: warning: "), r.err);
  BOOST_TEST(!std::filesystem::exists(f.folder / "out/trace.json"));
}

BOOST_AUTO_TEST_SUITE_END()
