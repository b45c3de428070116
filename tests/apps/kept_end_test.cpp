// Tests the end of a run: either all files that the run should have written exist, or its exit code is 3 and it reports
// which step is safe. Also tests that only one run at a time may write files to an output folder.
#include <signal.h>
#include <sys/resource.h>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

const std::string quick = replaced(smallest, "steps: 6", "steps: 2") + "telemetry: {trace: false, report: false}\n";
const std::string without_end = replaced(quick, "steps: 2", "steps: 100000");

void small_files() {
  const rlimit limit{100'000, 100'000};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

process started(const command_folder& f, std::vector<std::string> more) {
  more.insert(more.begin(), {troupe::places::troupe_binary, "train", "job.yaml", "--json"});
  return process(more, f.folder.path());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kept_end)

// The disk becomes full when the run writes its last checkpoint.
BOOST_AUTO_TEST_CASE(a_run_whose_last_checkpoint_could_not_be_written_ends_with_code_3_and_says_which_step_is_safe) {
  const command_folder f(quick + "checkpoint: {every_steps: 2, retry_for: 0}\n");
  const auto none = check_exit(3, f.troupe({"train", "job.yaml", "--json"}, small_files));
  BOOST_TEST(has(none.err, "troupe: error: the last checkpoint of step 2: "), none.err);
  BOOST_TEST(has(none.err, "; no step of this run is in a checkpoint\n"), none.err);
  BOOST_TEST(has(none.out, "\"unsaved\":true"), none.out);
  BOOST_TEST(!has(none.err, "the run continues"), none.err);

  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  for (const char* policy : {"continue", "stop"}) {
    BOOST_TEST_INFO_SCOPE(policy);
    const auto later = check_exit(
        3, f.troupe({"train", "job.yaml", "--steps", "3", "--set", std::string("checkpoint.on_error=") + policy},
                    small_files));
    BOOST_TEST(has(later.err, "; step 2 is safe in '" + (f.folder / "out/checkpoints/step-00000002").string() + "'\n"),
               later.err);
    BOOST_TEST(has(later.out, "ended after 3 steps"), later.out);
    BOOST_TEST(!has(later.out, "done after"), later.out);
    BOOST_TEST(has(later.out, "model: not kept: the last step is in no checkpoint\n"), later.out);
    BOOST_TEST(!has(later.out, "checkpoint.every_steps keeps it"), later.out);
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_another_error_ends_says_that_error_and_the_save_that_failed_and_ends_with_code_3) {
  const command_folder f(without_end + "checkpoint: {every_steps: 1000000, retry_for: 0}\n");
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--steps", "2"}).code == 0);
  process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path(), small_files);
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":4,"));
  fs::resize_file(f.folder / "corpus.txt", 0);
  const auto r = check_exit(3, p.end());
  const auto cause = r.err.find("corpus.txt': it had 20000 bytes when it was opened and has become shorter");
  const auto save = r.err.find("troupe: error: the last checkpoint of step ");
  BOOST_TEST(cause != std::string::npos, r.err);
  BOOST_TEST_REQUIRE(save != std::string::npos, r.err);
  BOOST_TEST(cause < save, r.err);
  BOOST_TEST(has(r.err, "; step 2 is safe in '" + (f.folder / "out/checkpoints/step-00000002").string() + "'\n"),
             r.err);
}

BOOST_AUTO_TEST_CASE(the_last_checkpoint_is_tried_again_until_it_can_be_written) {
  const command_folder f(quick + "checkpoint: {every_steps: 2, tag: best, retry_for: 10min}\n");
  f.folder.write("out/checkpoints/best/notes.txt", "not a checkpoint");
  process p = started(f, {});
  BOOST_TEST_REQUIRE(p.wait_for_error("s (checkpoint.retry_for)"));
  fs::remove_all(f.folder / "out/checkpoints/best");
  const auto r = check_exit(0, p.end());
  BOOST_TEST(has(r.out, "\"unsaved\":false"), r.out);
  BOOST_TEST(fs::exists(f.folder / "out/checkpoints/best/manifest.json"));
}

// The first update destroys the weights, and every later step is skipped in bf16.
BOOST_AUTO_TEST_CASE(a_run_whose_loss_stays_nan_saves_nothing_more_and_ends_with_code_1) {
  const command_folder f(replaced(quick, "steps: 2", "steps: 6") +
                         "bf16: {enabled: true}\n"
                         "checkpoint: {every_steps: 1, keep_last: 1, asynchronous: false}\n");
  const std::string first = (f.folder / "out/checkpoints/step-00000001").string();
  const auto r =
      check_exit(1, f.troupe({"train", "job.yaml", "--set", "optimizer.params.lr=1.0e+30", "--export", "hf"}));
  BOOST_TEST(
      has(r.err, "troupe: error: the loss has been nan since step 2; the checkpoint of step 1, '" + first +
                     "', has the weights of that loss; no checkpoint from before is left: train again, with a smaller "
                     "learning rate\n"),
      r.err);
  const std::string left_out = ": left out, as the loss has been nan since step ";
  BOOST_TEST(has(r.err, "warning: checkpoint of step 2" + left_out + "2;"), r.err);
  BOOST_TEST(r.err.find(left_out) == r.err.rfind(left_out), r.err);  // the message occurs only once
  BOOST_TEST(has(r.out, "ended after 6 steps"), r.out);
  BOOST_TEST(!has(r.out, "done after"), r.out);
  BOOST_TEST(!has(r.out, "next: "), r.out);
  BOOST_TEST(fs::exists(first + "/manifest.json"));
  for (const auto& x : fs::directory_iterator(f.folder / "out/checkpoints"))
    if (const std::string name = x.path().filename(); name.starts_with("step-")) BOOST_TEST(name == "step-00000001");
  // The resumed run must again report that no later checkpoint is good.
  const auto again = check_exit(1, f.troupe({"train", "job.yaml", "--json"}));
  BOOST_TEST(has(again.err, "the loss has been nan since step 2; the checkpoint of step 1, '" + first + "', has the "),
             again.err);
  BOOST_TEST(has(again.out, "\"unsaved\":true"), again.out);
}

BOOST_AUTO_TEST_CASE(an_evaluation_whose_loss_is_nan_keeps_the_step_that_broke_the_weights_out_of_the_checkpoints) {
  for (const char* bf16 : {"true", "false"}) {
    const command_folder f(
        replaced(replaced(quick, "steps: 2", "steps: 3"), "corpus.txt}", "corpus.txt, validation_fraction: 0.1}") +
        "evaluation: {every_steps: 1}\ncheckpoint: {every_steps: 1}\n");
    const auto r = check_exit(1, f.troupe({"train", "job.yaml", "--json", "--set", std::string("bf16.enabled=") + bf16,
                                           "--set", "optimizer.params.lr=1.0e+30"}));
    BOOST_TEST(has(r.err, "the loss "), r.err);
    BOOST_TEST(has(r.err, "no step of this run is in a checkpoint"), r.err);
    BOOST_TEST(!fs::exists(f.folder / "out/checkpoints/latest"));
  }
}

BOOST_AUTO_TEST_CASE(a_last_evaluation_whose_loss_is_nan_ends_the_run_with_code_1) {
  const command_folder f(
      replaced(replaced(quick, "steps: 2", "steps: 1"), "corpus.txt}", "corpus.txt, validation_fraction: 0.1}") +
      "bf16: {enabled: true}\n");
  const auto r = check_exit(1, f.troupe({"train", "job.yaml", "--json", "--set", "optimizer.params.lr=1.0e+30"}));
  BOOST_TEST(has(r.err, "troupe: error: the validation loss has been "), r.err);
  BOOST_TEST(has(r.err, " since step 1; no step of this run is in a checkpoint\n"), r.err);
}

BOOST_AUTO_TEST_CASE(a_last_update_that_breaks_the_weights_leaves_the_last_good_checkpoint_and_names_both) {
  const std::string validation = "data.validation_fraction=0.1", processes = "cluster.processes=ranks";
  for (const auto& [more, what] : {std::pair(std::vector{validation}, "validation loss"),
                                   {{validation, processes}, "validation loss"},
                                   {{}, "loss of a forward pass"},
                                   {{processes}, "loss of a forward pass"}}) {
    BOOST_TEST_INFO_SCOPE(what << " of a run with " << more.size() << " more keys");
    const command_folder f(replaced(quick, "steps: 2", "steps: 1") +
                           "bf16: {enabled: true}\ncheckpoint: {every_steps: 1, keep_last: 1}\n");
    const auto train = [&, &keys = more](const std::vector<std::string>& options) {
      std::vector<std::string> all{"train", "job.yaml"};
      for (const auto& key : keys) all.insert(all.end(), {"--set", key});
      all.insert(all.end(), options.begin(), options.end());
      return f.troupe(all);
    };
    check_exit(0, train({"--quiet"}));
    const auto r = check_exit(1, train({"--steps", "2", "--set", "optimizer.params.lr=1.0e+30"}));
    const std::string good = (f.folder / "out/checkpoints/step-00000001").string(),
                      bad = (f.folder / "out/checkpoints/step-00000002").string();
    BOOST_TEST(has(r.err, std::string("troupe: error: the ") + what + " has been "), r.err);
    BOOST_TEST(has(r.err, " since step 2; the checkpoint of step 2, '" + bad +
                              "', has the weights of that loss; the newest checkpoint from before, of step 1, is '" +
                              good + "': resume from that one, with a smaller learning rate\n"),
               r.err);
    BOOST_TEST(has(r.out, "model: " + good + "\n"), r.out);
    BOOST_TEST(!has(r.out, "next: "), r.out);
    for (const auto& folder : {good, bad}) BOOST_TEST(fs::exists(folder + "/manifest.json"));
    // A run that resumes from the good one sets the bad one aside.
    const auto again = check_exit(0, train({"--steps", "2", "--json", "--resume", good}));
    BOOST_TEST(has(again.out, "\"unsaved\":false"), again.out);
    BOOST_TEST(!fs::exists(good));
    BOOST_TEST(fs::exists(bad + "/manifest.json"));
  }
}

BOOST_AUTO_TEST_CASE(a_last_update_that_breaks_weights_ends_a_run_that_keeps_all_checkpoints_with_code_1) {
  const command_folder f(replaced(quick, "steps: 2", "steps: 1") +
                         "bf16: {enabled: true}\ncheckpoint: {every_steps: 1}\n");
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}));
  const auto r = check_exit(1, f.troupe({"train", "job.yaml", "--steps", "2", "--set", "optimizer.params.lr=1.0e+30"}));
  const std::string good = (f.folder / "out/checkpoints/step-00000001").string(),
                    bad = (f.folder / "out/checkpoints/step-00000002").string();
  BOOST_TEST(has(r.err, "troupe: error: the loss of a forward pass has been "), r.err);
  BOOST_TEST(
      has(r.err, "'" + bad + "', has the weights of that loss; the newest checkpoint from before, of step 1, is '" +
                     good + "': resume from that one"),
      r.err);
  for (const auto& folder : {good, bad}) BOOST_TEST(fs::exists(folder + "/manifest.json"));
}

BOOST_AUTO_TEST_CASE(weights_that_the_last_update_has_broken_are_not_exported) {
  for (const char* more : {"bf16.enabled=true", "seed=1"})
    for (const char* processes : {"cluster.processes=one", "cluster.processes=ranks"}) {
      BOOST_TEST_INFO_SCOPE(more << " " << processes);
      const command_folder f(replaced(quick, "steps: 2", "steps: 1"));
      const auto r = check_exit(1, f.troupe({"train", "job.yaml", "--export", "exported", "--set", more, "--set",
                                             processes, "--set", "optimizer.params.lr=1.0e+30"}));
      BOOST_TEST(has(r.err, "exported: not written, because the loss of these weights is not finite"), r.err);
      BOOST_TEST(!fs::exists(f.folder / "exported"));
    }
}

// In fp32 a loss that is not finite ends the run at once.
BOOST_AUTO_TEST_CASE(a_run_that_its_last_forward_pass_ends_leaves_the_last_good_checkpoint_and_names_both) {
  for (const char* more : {"data.validation_fraction=0.1", "seed=1"}) {
    BOOST_TEST_INFO_SCOPE(more);
    const command_folder f(replaced(quick, "steps: 2", "steps: 1") + "checkpoint: {every_steps: 1, keep_last: 1}\n");
    BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--set", more}).code == 0);
    const auto r = check_exit(
        1, f.troupe({"train", "job.yaml", "--steps", "2", "--set", more, "--set", "optimizer.params.lr=1.0e+30"}));
    const std::string good = (f.folder / "out/checkpoints/step-00000001").string(),
                      bad = (f.folder / "out/checkpoints/step-00000002").string();
    BOOST_TEST(has(r.err, "troupe: warning: the checkpoint of step 2, '" + bad +
                              "', has the weights with which the run failed; the newest checkpoint from before, of "
                              "step 1, is '" +
                              good + "': resume from that one, with a smaller learning rate\n"),
               r.err);
    for (const auto& folder : {good, bad}) BOOST_TEST(fs::exists(folder + "/manifest.json"));
  }
}

BOOST_AUTO_TEST_CASE(a_tag_without_a_step_names_the_last_good_checkpoint_when_an_update_breaks_the_weights) {
  for (const char* bf16 : {"true", "false"}) {
    BOOST_TEST_INFO_SCOPE("bf16 " << bf16);
    const command_folder f(replaced(quick, "steps: 2", "steps: 1") + "bf16: {enabled: " + bf16 +
                           "}\ncheckpoint: {every_steps: 1, tag: best}\n");
    BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
    const auto good = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", "2"}));
    BOOST_TEST(has(good.out, "\"written\":1,\"failed\":0,"), good.out);
    const auto manifest = scratch_folder::read(f.folder / "out/checkpoints/best/manifest.json");
    const auto r =
        check_exit(1, f.troupe({"train", "job.yaml", "--steps", "3", "--set", "optimizer.params.lr=1.0e+30"}));
    const std::string best = "'" + (f.folder / "out/checkpoints/best").string() + "'";
    BOOST_TEST(
        has(r.err, bf16 == std::string("true") ? "; the newest checkpoint from before, of step 2, is " + best + "\n"
                                               : "step 2 is safe in " + best + "\n"),
        r.err);
    BOOST_TEST(scratch_folder::read(f.folder / "out/checkpoints/best/manifest.json") == manifest);
  }
}

// The error leaves the states whole, but no forward pass can be computed without the text.
BOOST_AUTO_TEST_CASE(a_checkpoint_that_nothing_can_prove_leaves_the_one_of_its_tag_alone) {
  const command_folder f(without_end + "checkpoint: {every_steps: 1000000, tag: best}\n");
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--steps", "2"}).code == 0);
  const auto manifest = scratch_folder::read(f.folder / "out/checkpoints/best/manifest.json");
  process p = started(f, {});
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":4,"));
  fs::resize_file(f.folder / "corpus.txt", 0);
  const auto r = check_exit(1, p.end());
  BOOST_TEST(scratch_folder::read(f.folder / "out/checkpoints/best/manifest.json") == manifest);
  BOOST_TEST(has(scratch_folder::read(f.folder / "out/checkpoints/latest"), "step-0"), r.err);
}

// The last evaluation, which follows the last save and proves it, takes seconds.
BOOST_AUTO_TEST_CASE(a_run_that_is_killed_between_a_save_and_its_proof_leaves_the_checkpoint_before_it_too) {
  const command_folder f(replaced(quick, "corpus.txt}", "corpus.txt, validation_fraction: 0.9}") +
                         "checkpoint: {every_steps: 1, keep_last: 1, asynchronous: false}\n");
  f.folder.write("corpus.txt", made_up_text(2'000'000));
  process p = started(f, {});
  BOOST_TEST_REQUIRE(p.wait_for("\"event\":\"checkpoint\",\"step\":2,"));
  p.send(SIGKILL);
  BOOST_TEST(p.end().code == 128 + SIGKILL);
  const auto there = [&f](const char* step) {
    return fs::exists((f.folder / "out/checkpoints/step-0000000").string() + step + "/manifest.json");
  };
  BOOST_TEST((there("1") && there("2")));
  const auto again =
      check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--steps", "3", "--set", "evaluation.batches=1"}));
  BOOST_TEST((!there("1") && !there("2") && there("3")));
}

BOOST_AUTO_TEST_CASE(a_run_that_ends_well_leaves_as_many_checkpoints_as_keep_last_says) {
  for (const char* more : {"asynchronous: false", "asynchronous: true", "every_minutes: 1000"}) {
    BOOST_TEST_INFO_SCOPE(more);
    const command_folder f(replaced(quick, "steps: 2", "steps: 3") + "checkpoint: {every_steps: 1, keep_last: 1, " +
                           more + "}\n");
    const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}));
    for (const auto& x : fs::directory_iterator(f.folder / "out/checkpoints"))
      if (const std::string name = x.path().filename(); name.starts_with("step-")) BOOST_TEST(name == "step-00000003");
  }
}

// The first run leaves two checkpoints, as one does that is killed between a save and its proof.
BOOST_AUTO_TEST_CASE(a_run_that_resumes_proves_its_checkpoint_by_its_first_loss) {
  const command_folder f(without_end + "checkpoint: {every_steps: 1, keep_last: 2}\n");
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--steps", "2"}).code == 0);
  const auto folder_of = [&f](const char* step) { return (f.folder / "out/checkpoints/step-0000000").string() + step; };
  BOOST_TEST(fs::exists(folder_of("1")));
  process p = started(f, {"--set", "checkpoint={every_steps: 1000000, keep_last: 1}"});
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":3,"));
  p.send(SIGKILL);
  (void)p.end();
  BOOST_TEST(!fs::exists(folder_of("1")));
  BOOST_TEST(fs::exists(folder_of("2")));
}

BOOST_AUTO_TEST_CASE(a_run_that_skips_overflows_of_finite_losses_saves_as_ever) {
  const command_folder f(replaced(quick, "steps: 2", "steps: 3") +
                         "fp16: {enabled: true, initial_scale_power: 24, hysteresis: 1}\n"
                         "checkpoint: {every_steps: 1, asynchronous: false}\n");
  const auto searching =
      check_exit(1, f.troupe({"train", "job.yaml", "--json", "--set", "fp16.initial_scale_power=30"}));
  BOOST_TEST(has(searching.err,
                 "nothing was trained: gradients of all 3 steps were not finite, so that each was skipped; train more "
                 "steps, in which the loss scale falls further, or set a smaller fp16.initial_scale_power than 30"),
             searching.err);
  BOOST_TEST(has(searching.out, "\"checkpoints\":{\"written\":3,\"failed\":0,"), searching.out);
  BOOST_TEST(!has(searching.err, "left out"), searching.err);
  const auto found = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--fresh", "--steps", "20"}));
  BOOST_TEST(has(found.out, "\"skipped\":true"), found.out);
  BOOST_TEST(has(found.out, "\"checkpoints\":{\"written\":20,"), found.out);
}

BOOST_AUTO_TEST_CASE(an_export_that_cannot_be_written_is_refused_before_the_first_step) {
  const command_folder f(quick);
  f.folder.write("a_file", "text");
  fs::create_symlink("nowhere", f.folder / "a_link");
  fs::create_directories(f.folder / "taken/config.json");
  f.folder.write("another_model/pytorch_model.bin.index.json", "{}");
  for (const std::string to : {"a_file", "a_file/below", "a_link", "taken", "another_model", "/proc/below/it"}) {
    BOOST_TEST_INFO_SCOPE(to);
    const auto r = f.troupe({"train", "job.yaml", "--json", "--export", to});
    BOOST_TEST(r.code == 2, to + ": " + r.err);
    BOOST_TEST(has(r.err, "error: --export: cannot write to '" + to + "': "), r.err);
    BOOST_TEST(!has(r.out, "\"event\":\"step\""), r.out);
    BOOST_TEST(!fs::exists(f.folder / "out"));
  }
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--export", "new/hf"}));
  BOOST_TEST(fs::exists(f.folder / "new/hf/config.json"));
}

BOOST_AUTO_TEST_CASE(an_export_that_fails_at_the_end_leaves_the_weights_beside_the_run_with_code_3) {
  const command_folder f(without_end);
  process p = started(f, {"--export", "hf"});
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":1,"));
  f.folder.write("hf", "in the way");
  p.send(SIGINT);
  const auto r = check_exit(3, p.end());
  BOOST_TEST(has(r.err, "error: --export hf: "), r.err);
  BOOST_TEST(has(r.err, "; the weights are in '" + (f.folder / "out/export").string() + "' instead\n"), r.err);
  BOOST_TEST(fs::exists(f.folder / "out/export/model.safetensors"));
  BOOST_TEST(fs::exists(f.folder / "out/export/config.json"));
}

BOOST_AUTO_TEST_CASE(a_run_keeps_its_output_folder_whatever_becomes_of_its_checkpoints) {
  const command_folder f(without_end + "checkpoint: {every_steps: 1000000}\n");
  process p = started(f, {});
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":1,"));
  fs::remove_all(f.folder / "out/checkpoints");
  const auto before = scratch_folder::read(f.folder / "out/config.yaml");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--fresh"}, {"--set", "checkpoint.every_steps=0"}}) {
    std::vector<std::string> all{"train", "job.yaml", "--steps", "3"};
    all.insert(all.end(), more.begin(), more.end());
    const auto second = check_exit(2, f.troupe(all));
    BOOST_TEST(has(second.err, "out' is in use: process "), second.err);
  }
  BOOST_TEST(scratch_folder::read(f.folder / "out/config.yaml") == before);
  p.send(SIGINT);
  const auto r = check_exit(130, p.end());
  // The run must create the removed folder of checkpoints again and write its checkpoint there.
  BOOST_TEST(has(r.out, "\"written\":1,\"failed\":0,"), r.out);
  BOOST_TEST(fs::exists(f.folder / "out/checkpoints/latest"));
}

BOOST_AUTO_TEST_SUITE_END()
