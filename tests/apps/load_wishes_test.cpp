// Tests all flags, keys and `--set` options that determine where a run begins: wherever a run begins, each of them
// acts, is refused, or is reported as having no effect. The test over all keys examines the choice of the beginning,
// which the session then loads.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/base/load_keys.hpp"
#include "apps/base/training/checkpoint_start.hpp"
#include "config/explain.hpp"
#include "config/keys/key_table.hpp"
#include "tests/apps/topology.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/places.hpp"

using namespace troupe;
using namespace troupe::tests;

namespace {

using load_keys = config::checkpoint_load_section;

/// Values other than the default, for each key of checkpoint.load except the path.
const std::map<std::string, std::string> other_values{{"tag", "other"},
                                                      {"module_only", "true"},
                                                      {"optimizer_states", "false"},
                                                      {"lr_scheduler_states", "false"},
                                                      {"strict", "false"},
                                                      {"fallback_to_previous", "true"},
                                                      {"changed_batch", "true"},
                                                      {"changed_seed", "true"},
                                                      {"changed_data", "true"}};

/// Returns true if `key` has its value from `other_values`.
bool was_taken(const load_keys& load, const std::string& key) {
  if (key == "tag") return load.tag == "other";
  if (key == "module_only") return load.module_only;
  if (key == "optimizer_states") return !load.optimizer_states;
  if (key == "lr_scheduler_states") return !load.lr_scheduler_states;
  if (key == "strict") return !load.strict;
  if (key == "fallback_to_previous") return load.fallback_to_previous;
  if (key == "changed_batch") return load.changed_batch;
  if (key == "changed_seed") return load.changed_seed;
  return key == "changed_data" && load.changed_data;
}

/// The output folder of a run, with or without a checkpoint of its own, and another folder of checkpoints.
struct two_folders {
  scratch_folder at;
  std::filesystem::path own = at / "out/checkpoints", other = at / "elsewhere";

  explicit two_folders(bool has_own) {
    if (has_own) check_ok(save_sample(storage::real_files(), own, 10, sample_tensors(1), 2));
    check_ok(save_sample(storage::real_files(), other, 20, sample_tensors(2), 2));
  }
};

/// Returns where a run with these keys begins; `said` receives the messages that are printed.
core::result<apps::run_start> start_of(const two_folders& f, const std::string& in_file,
                                       const std::vector<std::string>& by_hand, bool is_named_by_hand,
                                       std::string& said, const std::string& map = "") {
  config::load_options options;
  for (const auto& s : by_hand) options.overrides.push_back("checkpoint.load." + s);
  const auto loaded = check_ok(
      config::load_text(smallest + "checkpoint: {load: {" + in_file + "}}\n", "job.yaml", f.at.path(), options));
  apps::checkpoint_start start(f.own, loaded->config.checkpoint.load,
                               {false, is_named_by_hand, apps::load_keys_by_hand(*loaded), map});
  return start.choose([&said](const std::string& line) { said += line + "\n"; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(load_wishes)

BOOST_AUTO_TEST_CASE(every_key_of_the_load_acts_at_every_start_or_is_refused) {
  size_t keys = 0;
  for (const auto& row : config::key_table()) {
    constexpr std::string_view section = "checkpoint.load.";
    if (!row.key.starts_with(section) || row.key == "checkpoint.load.path") continue;
    const std::string key = row.key.substr(section.size());
    ++keys;
    BOOST_TEST_REQUIRE(other_values.contains(key), "a value of " + row.key + " for this test");
    const std::string given = key + "=" + other_values.at(key), written = key + ": " + other_values.at(key);
    const bool wants_path = key == "tag" || key == "module_only";
    for (const bool has_own : {true, false}) {
      BOOST_TEST_INFO_SCOPE("has own " << has_own);
      const two_folders f(has_own);
      const std::string path = "path: " + f.other.string();
      std::string said;
      const auto says = [&](const std::string& text) { return has(said, text); };
      // Every key acts if --resume names a folder, or if the file names a folder and the run has no checkpoint of its
      // own.
      const auto named = check_ok(start_of(f, path, {given}, true, said));
      BOOST_TEST(was_taken(named->load, key), key);
      BOOST_TEST(named->load.path == f.other);
      const auto in_file = start_of(f, path + ", " + written, {}, false, said);
      const auto by_hand = start_of(f, path, {given}, false, said);
      if (!has_own) {
        BOOST_TEST(was_taken(in_file->load, key), key);
        BOOST_TEST(was_taken(by_hand->load, key), key);
        BOOST_TEST(said.empty(), said);
        continue;
      }
      // The run has a checkpoint of its own. A key on the command line must act or be refused; a key in the file next
      // to a path applies to that path.
      BOOST_TEST_REQUIRE(in_file.has_value());
      BOOST_TEST(in_file->own);
      BOOST_TEST((was_taken(in_file->load, key) || says("(" + key + "); --resume " + f.other.string())), said);
      if (wants_path) {
        BOOST_TEST_REQUIRE(!by_hand.has_value());
        BOOST_TEST((by_hand.error().kind == core::error_kind::bad_input));
        BOOST_TEST(has(by_hand.error().text,
                       "checkpoint.load." + key + ": the run has checkpoints of its own in '" + f.own.string() + "'"),
                   by_hand.error().text);
        continue;
      }
      BOOST_TEST_REQUIRE(by_hand.has_value());
      BOOST_TEST(by_hand->own);
      BOOST_TEST(was_taken(by_hand->load, key), key);
      BOOST_TEST(by_hand->load.path == f.own);
      // Without a path in the file, its keys can apply only to the run's own checkpoint.
      const auto alone = check_ok(start_of(f, written, {}, false, said));
      BOOST_TEST(was_taken(alone->load, key), key);
    }
  }
  BOOST_TEST(keys == other_values.size());
}

BOOST_AUTO_TEST_CASE(keys_that_the_file_sets_for_its_own_path_do_not_apply_to_the_checkpoint_of_resume) {
  const two_folders f(false);
  const auto load = [&f](const std::string& in_file, const std::vector<std::string>& by_hand) {
    config::load_options options;
    options.overrides = by_hand;
    options.overrides.insert(options.overrides.begin(), apps::resume_override(f.other.string()));
    auto out = check_ok(
        config::load_text(smallest + "checkpoint: {load: {" + in_file + "}}\n", "job.yaml", f.at.path(), options));
    return apps::with_resume(std::move(*out), f.other.string());
  };
  for (const auto& [key, value] : other_values) {
    const bool is_for_all = key == "fallback_to_previous" || key.starts_with("changed_");
    const std::string in_file = "path: here, " + key + ": " + value;
    const auto reset = check_ok(load(in_file, {}));
    BOOST_TEST(was_taken(reset->config.checkpoint.load, key) == is_for_all, key);
    BOOST_TEST((reset->config.checkpoint.load.path == f.other));
    BOOST_TEST(reset->warnings.size() == (is_for_all ? 0U : 1U), key);
    if (!is_for_all)
      BOOST_TEST(has(reset->warnings.front().text, "have no effect (" + key + "): "), reset->warnings.front().text);
    // A run with the recorded configuration must be the same run.
    const auto again = check_ok(config::load_text(config::effective_yaml(*reset), "config.yaml", f.at.path()));
    BOOST_TEST(was_taken(again->config.checkpoint.load, key) == is_for_all, key);
    const auto kept = check_ok(load(in_file, {"checkpoint.load." + key + "=" + value}));
    BOOST_TEST(was_taken(kept->config.checkpoint.load, key), key);
    BOOST_TEST(kept->warnings.empty());
  }
  const auto both = load("strict: true", {"checkpoint.load.path=" + (f.at / "third").string()});
  BOOST_TEST_REQUIRE(!both.has_value());
  BOOST_TEST(both.error().front().key == "checkpoint.load.path");
  BOOST_TEST(has(both.error().front().text, "names another checkpoint to load: leave out one of the two"));
  BOOST_TEST(load("strict: true", {"checkpoint.load.tag=other"}).has_value());
}

BOOST_AUTO_TEST_CASE(a_run_of_resume_takes_the_position_of_its_checkpoint_although_the_file_loads_weights_alone) {
  const command_folder f;
  BOOST_TEST_REQUIRE(
      f.troupe({"train", "job.yaml", "--steps", "2", "--quiet", "--set", "checkpoint.every_steps=2"}).code == 0);
  f.folder.write("again.yaml", replaced(smallest, "output: out",
                                        "output: again\ncheckpoint: {load: {path: out, module_only: true}}"));
  const auto train = [&f](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "again.yaml", "--steps", "3", "--json", "--resume", "out"});
    return f.troupe(more);
  };
  const auto resumed = check_exit(0, train({}));
  BOOST_TEST((has(resumed.out, "\"step\":3,") && !has(resumed.out, "\"step\":1,")), resumed.out);
  BOOST_TEST(has(resumed.err, "have no effect (module_only)"), resumed.err);
  const auto by_hand = check_exit(0, train({"--load-module-only"}));
  BOOST_TEST(has(by_hand.out, "\"step\":1,"), by_hand.out);
  BOOST_TEST(!has(by_hand.err, "have no effect"), by_hand.err);
  const auto both = check_exit(2, train({"--set", "checkpoint.load.path=elsewhere"}));
  BOOST_TEST(has(both.err, "leave out one of the two"), both.err);
  const auto tag = check_exit(2, train({"--tag", "none"}));
  BOOST_TEST(has(tag.err, "--tag: the requested tag is 'none', but there is no such folder"), tag.err);
  const auto of_file =
      f.troupe({"train", "again.yaml", "--fresh", "--set", "checkpoint.load.tag=missing", "--set", "output=third"});
  BOOST_TEST(has(of_file.err, "--set checkpoint.load.tag=missing: the requested tag is 'missing'"), of_file.err);
}

BOOST_AUTO_TEST_CASE(other_names_are_for_what_resume_names_and_not_for_the_runs_own_checkpoints_after_a_loss) {
  for (const bool has_own : {true, false}) {
    BOOST_TEST_INFO_SCOPE("has own " << has_own);
    const two_folders f(has_own);
    std::string said;
    const auto named = check_ok(start_of(f, "path: " + f.other.string(), {}, true, said, "names.yaml"));
    BOOST_TEST((named->load.path == f.other && named->map == "names.yaml"));
    load_keys load;
    load.path = f.other;
    apps::checkpoint_start start(f.own, load, {false, true, {}, "names.yaml"});
    const auto again = check_ok(start.choose([](const std::string&) {}, true));
    BOOST_TEST(again->own == has_own);
    BOOST_TEST(again->map == (has_own ? "" : "names.yaml"));
  }
}

BOOST_AUTO_TEST_CASE(map_without_resume_is_refused_and_compressed_weights_are_taken_at_every_start_that_permits_them) {
  const command_folder f;
  f.folder.write("names.yaml", "names: {a: b}\n");
  BOOST_TEST_REQUIRE(
      f.troupe({"train", "job.yaml", "--steps", "2", "--export", "hf", "--quiet", "--set", "checkpoint.every_steps=2"})
          .code == 0);
  BOOST_TEST_REQUIRE(
      f.troupe({"compress", "hf", "packed.gguf", "--to", "gguf:q8_0", "--tokenizer", "bytes", "--quiet"}).code == 0);
  // A run can begin from its own folder, or from a foreign folder named by --resume or by a key.
  const std::vector<std::vector<std::string>> own = {{}}, foreign = {{"--set", "output=a", "--resume", "packed.gguf"},
                                                                     {"--set", "output=b", "--set",
                                                                      "checkpoint.load.path=packed.gguf"}};
  const auto train = [&](std::vector<std::string> more, const std::vector<std::string>& flag) {
    more.insert(more.begin(), {"train", "job.yaml", "--steps", "3", "--quiet"});
    more.insert(more.end(), flag.begin(), flag.end());
    return f.troupe(more);
  };
  for (const auto& start : foreign) {
    const auto without = train(start, {});
    BOOST_TEST(without.code != 0, without.err);
    BOOST_TEST(has(without.err, "--dequantise"), without.err);
    check_exit(0, train(start, {"--dequantise"}));
  }
  for (const auto& start : {own[0], foreign[1]}) {
    const auto refused = check_exit(2, train(start, {"--map", "names.yaml"}));
    BOOST_TEST(has(refused.err, "--map requires --resume"), refused.err);
  }
  // The run's own checkpoint is not compressed, so the flag permits a case that does not occur, and is accepted.
  check_exit(0, train(own[0], {"--dequantise"}));
  BOOST_TEST(has(scratch_folder::read(f.folder / "out/config.yaml"), "dequantise: true"));
}

BOOST_AUTO_TEST_CASE(keys_given_by_hand_stay_so_for_the_processes_of_a_job) {
  const command_folder f;
  const auto train = [&](const char* steps, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "job.yaml", "--steps", steps, "--quiet", "--set", "cluster.processes=ranks",
                               "--set", "checkpoint.every_steps=2"});
    return f.troupe(more);
  };
  check_exit(0, train("2", {}));
  const auto refused =
      train("4", {"--set", "checkpoint.load.path=elsewhere", "--set", "checkpoint.load.module_only=true"});
  BOOST_TEST(refused.code != 0, refused.err);
  BOOST_TEST(has(refused.err, "checkpoint.load.module_only: the run has checkpoints of its own"), refused.err);
  check_exit(0, train("4", {"--set", "checkpoint.load.optimizer_states=false"}));
}

BOOST_AUTO_TEST_CASE(a_path_given_by_hand_that_the_runs_own_checkpoints_outrank_is_said) {
  const two_folders f(true);
  std::string said;
  const auto start = check_ok(start_of(f, "strict: true", {"path=" + f.other.string()}, false, said));
  BOOST_TEST(start->own);
  BOOST_TEST(has(said, "the run resumes from its own checkpoints in '" + f.own.string() + "'"), said);
  BOOST_TEST(has(said, "(path); --resume " + f.other.string() + " loads that one"), said);
}

BOOST_AUTO_TEST_CASE(a_run_after_a_loss_takes_all_of_its_own_checkpoints_but_the_one_that_it_began_from) {
  const two_folders f(true);
  load_keys load;
  load.optimizer_states = false;
  apps::checkpoint_start start(f.own, load, {false, false, {"optimizer_states"}});
  const auto nothing = [](const std::string&) {};
  BOOST_TEST(!start.choose(nothing)->load.optimizer_states);
  BOOST_TEST(!start.choose(nothing, true)->load.optimizer_states);
  check_ok(save_sample(storage::real_files(), f.own, 11, sample_tensors(3), 2));
  BOOST_TEST(start.choose(nothing, true)->load.optimizer_states);
}

BOOST_AUTO_TEST_CASE(a_wish_about_a_load_is_refused_where_nothing_is_loaded) {
  const scratch_folder at;
  const auto nothing = [](const std::string&) {};
  for (const bool fresh : {false, true})
    for (const std::string key : {"module_only", "optimizer_states", "lr_scheduler_states"}) {
      BOOST_TEST_INFO_SCOPE(key);
      apps::checkpoint_start start(at / "out/checkpoints", load_keys(), {fresh, false, {key}});
      const auto refused = start.choose(nothing);
      BOOST_TEST_REQUIRE(!refused.has_value());
      BOOST_TEST(has(refused.error().text, "checkpoint.load." + key + " (--"), refused.error().text);
      BOOST_TEST(has(refused.error().text, "would do nothing here"), refused.error().text);
      // A job that lost a rank before its first checkpoint must begin again.
      BOOST_TEST(start.choose(nothing, true).has_value());
    }
  // A script may always set keys that only permit a case.
  for (const std::string key : {"strict", "fallback_to_previous", "changed_batch"}) {
    BOOST_TEST_INFO_SCOPE(key);
    apps::checkpoint_start start(at / "out/checkpoints", load_keys(), {false, false, {key}});
    BOOST_TEST(start.choose(nothing).has_value());
  }
}

BOOST_AUTO_TEST_CASE(fresh_beside_a_checkpoint_of_the_run_itself_is_refused) {
  const two_folders f(true);
  load_keys load;
  load.path = f.own;
  apps::checkpoint_start start(f.own, load, {true, true, {"path"}});
  check_failed(start.choose([](const std::string&) {}), "leave out one of the two");
}

// A flag that resets optimizer or schedule states must act in a run that resumes from its own folder, too.
BOOST_AUTO_TEST_CASE(flags_of_the_load_act_where_a_run_resumes_from_its_own_folder) {
  const std::string tiny =
      "model: {model_type: gpt2, n_layer: 1, n_embd: 4, n_head: 2, n_positions: 16, vocab_size: 256, resid_pdrop: 0, "
      "embd_pdrop: 0, attn_pdrop: 0}\n"
      "data: {text: corpus.txt}\nseed: 1\nsteps: 4\ntrain_batch_size: 4\noutput: out\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\ntelemetry: {report: false, trace: false}\n"
      "checkpoint: {every_steps: 4}\n"
      "scheduler: {type: WarmupDecayLR, params: {warmup_num_steps: 2, total_num_steps: 14, warmup_max_lr: 0.01}}\n";
  const command_folder f(tiny);
  const auto again = [&f](std::vector<std::string> more) {
    std::filesystem::remove_all(f.folder / "out");
    std::filesystem::copy(f.folder / "first", f.folder / "out", std::filesystem::copy_options::recursive);
    more.insert(more.begin(), {"train", "job.yaml", "--json", "--steps", "6"});
    return f.troupe(more);
  };
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  std::filesystem::rename(f.folder / "out", f.folder / "first");
  /// Returns the text of one value of the step's line.
  const auto value = [](const finished& r, int step, const std::string& name) {
    const auto line = r.out.find(fmt::format("\"step\":{},", step));
    const auto at = r.out.find("\"" + name + "\":", line);
    return line == std::string::npos ? std::string() : r.out.substr(at, r.out.find(',', at) - at);
  };
  const auto plain = again({}), without = again({"--no-load-optimizer-states"}),
             from_lr = again({"--no-load-lr-scheduler-states"});
  for (const auto* r : {&plain, &without, &from_lr}) BOOST_TEST_REQUIRE(r->code == 0, r->err);
  BOOST_TEST(value(plain, 5, "loss") == value(without, 5, "loss"));
  BOOST_TEST(value(plain, 6, "loss") != value(without, 6, "loss"));
  BOOST_TEST(value(plain, 5, "lr") == value(without, 5, "lr"));
  BOOST_TEST(value(plain, 5, "lr") != value(from_lr, 5, "lr"));

  // The run has another optimizer: the refusal names a key and a flag that exist, and both work as the refusal
  // describes.
  const auto other = again({"--set", "optimizer.type=Lion"});
  BOOST_TEST(other.code == 0, other.err);  // the checkpoint contains Lion's only moment, so the run can load it
  BOOST_TEST(has(other.err,
                 "was trained with adamw, and this run's optimizer is lion: its states are used as those of the "
                 "same names; set checkpoint.load.optimizer_states: false (--no-load-optimizer-states) to begin"),
             other.err);
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--set", "optimizer.type=Lion", "--fresh"}).code == 0);
  const auto refused = check_exit(1, f.troupe({"train", "job.yaml", "--json", "--steps", "6"}));
  BOOST_TEST(
      has(refused.err, "set checkpoint.load.optimizer_states: false (--no-load-optimizer-states) to begin without"),
      refused.err);
  BOOST_TEST(f.troupe({"train", "job.yaml", "--steps", "5", "--set", "checkpoint.load.optimizer_states=false"}).code ==
             0);
  const auto module = check_exit(2, f.troupe({"train", "job.yaml", "--steps", "6", "--load-module-only"}));
  BOOST_TEST(has(module.err, "checkpoint.load.module_only: requires checkpoint.load.path"), module.err);
}

BOOST_AUTO_TEST_SUITE_END()
