// Tests names, `latest`, retention and clean-up. Crashes and faults at every operation are tested in tests/crash.
#include "checkpoint/commit/commit.hpp"

#include <map>

#include "checkpoint/commit/retention.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "storage/files/working_folder.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/fakes/file_system.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(commit)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

const std::filesystem::path checkpoints = "/runs/checkpoints";
const auto& at = checkpoints;

/// Returns the tensors of a seed; creates them at the first call with that seed.
const std::vector<sample_tensor>& samples(uint64_t seed) {
  static std::map<uint64_t, std::vector<sample_tensor>> all;
  auto& out = all[seed];
  if (out.empty()) out = sample_tensors(seed);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_the_old_checkpoint_and_says_how_much_is_missing) {
  fake_files files(400'000);
  check_ok(save_sample(files, at, 1, samples(1), 1));
  check_failed(checkpoint_save::begin(files, at, 2, 1'000'000), error_kind::no_space,
               "a checkpoint of 1000000 bytes does not fit into '/runs/checkpoints': ");
  core::result<std::filesystem::path> last;
  for (uint64_t step = 2; last; ++step) last = save_sample(files, at, step, samples(1), 1);
  BOOST_TEST(static_cast<int>(last.error().kind) == static_cast<int>(error_kind::no_space));
  const auto found = check_ok(open_checkpoint(files, at));
  check_newest(files, at, found->content.run.step, samples(1));
  BOOST_TEST(remove_leftovers(files, at)->empty());  // the failed save has already removed its own files
}

BOOST_AUTO_TEST_CASE(latest_that_names_nothing_or_another_manifest_is_refused) {
  fake_files files;
  check_failed(open_checkpoint(files, "/"), error_kind::bad_input, "is not a checkpoint: it contains neither");
  check_ok(save_sample(files, at, 10, samples(1), 1));
  check_ok(save_sample(files, at, 20, samples(2), 1));
  auto& latest = *files.content(at / "latest");
  const auto good = latest;
  for (size_t i = 0; i < good.size(); ++i)
    for (const int bit : {0, 1, 4, 7}) {
      latest = good;
      latest[i] ^= static_cast<std::byte>(1 << bit);
      const auto found = open_checkpoint(files, at);
      BOOST_TEST(!found, "byte " << i << ", bit " << bit);
      if (!found) BOOST_TEST(found.error().text.find("latest") != std::string::npos, found.error().text);
    }
  const auto say = [&](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    latest.assign(bytes.begin(), bytes.end());
  };
  say("step-00000010");  // changes `latest` as a user does who returns to an earlier checkpoint
  check_newest(files, at, 10, samples(1));
  say("../other");
  check_failed(open_checkpoint(files, at), error_kind::bad_input, "does not begin with the name of a checkpoint");
  say("step-00000015\n");
  check_failed(open_checkpoint(files, at), error_kind::bad_input, "'/runs/checkpoints/latest' names 'step-00000015'");
}

BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_is_passed_over_for_the_newest_good_one_and_reported) {
  fake_files good;
  for (const uint64_t step : {10, 20, 30}) check_ok(save_sample(good, at, step, samples(step), 2));
  std::vector<std::string> said;
  const auto open = [&](fake_files& files, good_enough check) {
    said.clear();
    const auto say = [&](const std::string& text) { said.push_back(text); };
    return open_checkpoint(files, at, {.fallback_to_previous = true, .fallback_check = check, .say = say});
  };
  const auto step_of_newest = [&](fake_files& files, good_enough check) -> uint64_t {
    const auto found = check_ok(open(files, check));
    check_loads(files, *found, samples(found->content.run.step), 1);
    return found->content.run.step;
  };
  const auto damaged = [&](std::initializer_list<std::pair<std::filesystem::path, size_t>> places) {
    auto files = good.after_power_cut(survival::everything);
    for (const auto& [path, byte] : places) (*files->content(at / path))[byte] ^= std::byte{1};
    return files;
  };
  const std::filesystem::path shard = "step-00000030/shard-00001.bin";

  BOOST_TEST(step_of_newest(good, good_enough::verifies) == 30U);
  BOOST_TEST(said.empty());
  {  // damages a payload, which only a complete read detects
    const auto files = damaged({{shard, 4096}});
    check_ok(open(*files, good_enough::opens));
    BOOST_TEST(said.empty());
    BOOST_TEST(step_of_newest(*files, good_enough::verifies) == 20U);
    BOOST_REQUIRE(said.size() == 2U);
    BOOST_TEST(said[0].find("skipped: '/runs/checkpoints/step-00000030/shard-00001.bin': the ") == 0U, said[0]);
    BOOST_TEST(said[0].find("at byte 4096") != std::string::npos, said[0]);
    BOOST_TEST(said[1] == "used instead: '/runs/checkpoints/step-00000020'");
  }
  for (const auto check : {good_enough::opens, good_enough::verifies}) {
    BOOST_TEST(step_of_newest(*damaged({{shard, 100}}), check) == 20U);
    BOOST_TEST(step_of_newest(*damaged({{"step-00000030/manifest.json", 300}}), check) == 20U);
    BOOST_TEST(step_of_newest(*damaged({{shard, 0}, {"step-00000020/manifest.json", 300}}), check) == 10U);
    BOOST_TEST(said.size() == 3U);
    BOOST_TEST(step_of_newest(*damaged({{"latest", 0}}), check) == 30U);   // only `latest` itself is damaged
    BOOST_TEST(step_of_newest(*damaged({{"latest", 20}}), check) == 30U);  // the digest in `latest` is wrong
    const auto none = damaged({{shard, 0}, {"step-00000020/manifest.json", 300}, {"step-00000010/shard-00000.bin", 4}});
    check_failed(open(*none, check), error_kind::bad_input, "none of the 3 checkpoints in '/runs/checkpoints' is good");
  }
  {  // removes a file, then a folder, then `latest`
    const auto files = damaged({});
    check_ok(files->remove(at / shard));
    BOOST_TEST(step_of_newest(*files, good_enough::opens) == 20U);
    check_ok(remove_checkpoint(*files, at, "step-00000030"));
    BOOST_TEST(step_of_newest(*files, good_enough::opens) == 20U);
    check_ok(files->remove(at / "latest"));
    BOOST_TEST(step_of_newest(*files, good_enough::opens) == 20U);
  }
  {  // if a user has changed `latest` to an earlier checkpoint, later ones are not opened
    const auto files = damaged({{"step-00000020/manifest.json", 300}});
    const std::string_view text = "step-00000020\n";
    const auto bytes = std::as_bytes(std::span(text));
    files->content(at / "latest")->assign(bytes.begin(), bytes.end());
    BOOST_TEST(step_of_newest(*files, good_enough::opens) == 10U);
  }
  fake_files empty;
  check_failed(open(empty, good_enough::opens), error_kind::bad_input, "'/runs/checkpoints'");
  // A run can resume from the checkpoint that was opened, and its saves replace the damaged checkpoints.
  const auto files = damaged({{shard, 0}, {"latest", 3}});
  check_ok(remove_leftovers(*files, at));
  check_ok(open(*files, good_enough::verifies));
  check_ok(save_sample(*files, at, 30, samples(1), 2));
  check_newest(*files, at, 30, samples(1));
}

BOOST_AUTO_TEST_CASE(after_a_run_went_back_the_one_committed_before_is_taken_not_the_higher_steps_of_the_old_history) {
  fake_files good;
  for (const uint64_t step : {10, 20, 30, 40}) check_ok(save_sample(good, at, step, samples(step), 1));
  for (const uint64_t step : {15, 25})
    check_ok(save_sample(good, at, step, samples(step), 1));  // models a run that resumed from step 10
  const auto taken = [&](std::initializer_list<const char*> damaged) -> uint64_t {
    const auto files = good.after_power_cut(survival::everything);
    for (const char* path : damaged) (*files->content(at / path))[0] ^= std::byte{1};
    const auto found = check_ok(open_checkpoint(*files, at, {.fallback_to_previous = true}));
    check_loads(*files, *found, samples(found->content.run.step), 1);
    return found->content.run.step;
  };
  BOOST_TEST(taken({}) == 25U);
  BOOST_TEST(taken({"step-00000025/shard-00000.bin"}) == 15U);  // a choice by step number would return 20
  BOOST_TEST(taken({"step-00000025/shard-00000.bin", "step-00000015/manifest.json"}) == 20U);
  BOOST_TEST(taken({"latest"}) == 25U);  // a choice by step number would return 40
  BOOST_TEST(taken({"latest", "step-00000025/manifest.json"}) == 15U);
  BOOST_TEST(taken({"latest", "step-00000025/manifest.json", "step-00000015/shard-00000.bin"}) == 40U);
}

BOOST_AUTO_TEST_CASE(a_damaged_latest_leaves_a_replaced_checkpoint_alone) {
  fake_files files;
  check_ok(save_sample(files, at, 10, samples(1), 1));
  const auto aside = at / ("step-00000010.replaced-" + to_hex(random_save_id()));
  const auto writing = at / ("step-00000011.writing-" + to_hex(random_save_id()));
  check_ok(files.rename(at / "step-00000010", aside));
  check_ok(files.make_folder(writing));
  (*files.content(at / "latest"))[2] ^= std::byte{1};
  const auto left = check_ok(remove_leftovers(files, at));
  BOOST_REQUIRE(left->size() == 1U);
  BOOST_TEST((*left)[0].name == writing.filename());
  const auto found = check_ok(open_checkpoint(files, at, {.fallback_to_previous = true}));
  BOOST_TEST(found->folder == aside);
  check_loads(files, *found, samples(1), 1);
}

BOOST_AUTO_TEST_CASE(names_of_steps_are_exact) {
  BOOST_TEST(step_folder_name(120) == "step-00000120");
  BOOST_TEST(step_folder_name(12'345'678'901) == "step-12345678901");
  BOOST_TEST(step_of("step-00000120").value() == 120U);
  for (const char* not_one : {"step-120", "step-000000120", "step-", "step-0000012x", "Step-00000120", "step-00000120 ",
                              "step-99999999999999999999999", "step--0000012"})
    BOOST_TEST(!step_of(not_one), not_one);
}

BOOST_AUTO_TEST_CASE(retention_keeps_the_last_the_multiples_and_the_one_that_latest_names) {
  std::vector<committed_step> steps;
  for (const uint64_t step : {50, 10, 20, 30, 40}) steps.push_back({step, 1'000 + step});
  const std::vector<uint64_t> none, old{10, 20, 30}, odd{10, 30}, not_named{20, 30, 40};
  for (const bool timed : {true, false}) {
    BOOST_TEST_INFO_SCOPE("timed " << timed);
    BOOST_TEST(steps_to_remove(steps, 50, {}) == none);
    BOOST_TEST(steps_to_remove(steps, 50, {.keep_last = 2}) == old);
    BOOST_TEST(steps_to_remove(steps, 50, {.keep_last = 2, .keep_every = 20}) == odd);
    BOOST_TEST(steps_to_remove(steps, 10, {.keep_last = 1}) == not_named);
    BOOST_TEST(steps_to_remove(steps, 50, {.keep_last = 9}) == none);
    if (timed)
      for (auto& s : steps) s.committed_unix_ns = 0;  // older manifests do not store this time
  }
  // A run resumed from step 20 and saved step 25; one of the checkpoints has no time of commit.
  const std::vector<committed_step> back{{10, 0}, {20, 100}, {30, 200}, {40, 300}, {25, 400}};
  const std::vector<uint64_t> stale{10, 20, 30};
  BOOST_TEST(steps_to_remove(back, 25, {.keep_last = 2}) == stale);
}

BOOST_AUTO_TEST_CASE(a_run_that_went_back_keeps_its_later_saves_and_not_the_higher_steps) {
  fake_files files;
  for (const uint64_t step : {10, 20, 30, 40}) check_ok(save_sample(files, at, step, samples(1), 1));
  for (const uint64_t step : {11, 12}) {  // models a host program that resumed from step 10
    check_ok(save_sample(files, at, step, samples(2), 1));
    check_ok(apply_retention(files, at, {.keep_last = 2, .keep_every = 20}));
  }
  std::vector<std::string> names;
  const auto entries = check_ok(files.list(at));
  for (const auto& e : *entries) names.push_back(e.name);
  const std::vector<std::string> wanted{"latest", "step-00000011", "step-00000012", "step-00000020", "step-00000040"};
  BOOST_TEST(names == wanted, boost::test_tools::per_element());
  check_newest(files, at, 12, samples(2));
  // The times of commits must increase, however fast the commits follow each other.
  const auto first = open_folder(files, at / "step-00000011"), second = open_folder(files, at / "step-00000012");
  BOOST_TEST_REQUIRE((first && second));
  BOOST_TEST(first->content.committed_unix_ns < second->content.committed_unix_ns);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_being_read_is_not_removed) {
  const scratch_folder scratch;
  for (uint64_t step = 1; step <= 2; ++step) check_ok(save_sample(real_files(), scratch.path(), step, samples(1), 1));
  {
    const auto reader = open_source(scratch.path(), {.tag = "step-00000001"});
    const auto another = open_source(scratch.path() / "step-00000001");
    check_ok(reader);
    check_ok(another);
    const auto report = check_ok(apply_retention(real_files(), scratch.path(), {.keep_last = 1}));
    BOOST_TEST(report->removed.empty());
    BOOST_REQUIRE(report->spared.size() == 1U);
    BOOST_TEST(report->spared[0] == "step-00000001: another process is reading it");
  }
  const auto report = check_ok(apply_retention(real_files(), scratch.path(), {.keep_last = 1}));
  BOOST_TEST(report->removed.size() == 1U);
  check_newest(real_files(), scratch.path(), 2, samples(1));
}

BOOST_AUTO_TEST_CASE(tags_are_plain_names_without_another_meaning) {
  for (const char* good : {"best", "global_step100", "epoch-1.5", "_", "7", "step-1"}) BOOST_TEST(is_tag(good), good);
  const auto aside = "best.replaced-" + to_hex(random_save_id());
  for (const std::string bad : {"", ".best", "-best", "a/b", "..", "a b", "caf\u00e9", "latest", "latest_universal",
                                "zero", "model.pt", "manifest.json", "model.safetensors", "step-00000007"})
    BOOST_TEST(!is_tag(bad), bad);
  BOOST_TEST(!is_tag(aside));
  BOOST_TEST(!is_tag(std::string(max_tag_bytes + 1, 'a')));
  check_ok(check_tag("step-00000007", 7));
  check_failed(check_tag("step-00000007", 8), error_kind::bad_input, "the tag 'step-00000007': wanted a plain name");
}

BOOST_AUTO_TEST_CASE(checkpoints_with_tags_are_named_replaced_and_found_and_retention_leaves_them_alone) {
  fake_files files;
  const auto save = [&](uint64_t step, uint64_t seed, const std::string& tag, latest_update latest) {
    check_ok(save_sample(files, at, step, samples(seed), 2, {}, random_save_id(), {tag, latest}));
  };
  save(1, 1, "best", latest_update::if_replaced);
  check_failed(open_checkpoint(files, at), error_kind::bad_input, "is not a checkpoint: it contains neither");
  save(2, 2, "", latest_update::always);
  save(3, 3, "epoch-1.5", latest_update::always);
  check_newest(files, at, 3, samples(3));
  save(4, 1, "best", latest_update::if_replaced);  // the save replaces the checkpoint of step 1
  check_newest(files, at, 3, samples(3));
  const auto best = check_ok(open_checkpoint(files, at / "best"));
  BOOST_TEST(best->content.run.step == 4U);
  save(5, 2, "epoch-1.5", latest_update::if_replaced);  // `latest` already names that folder
  check_newest(files, at, 5, samples(2));
  save(6, 1, "", latest_update::if_replaced);
  save(7, 1, "", latest_update::if_replaced);
  check_newest(files, at, 5, samples(2));
  const auto report = check_ok(apply_retention(files, at, {.keep_last = 1}));
  const std::vector<std::string> removed{"step-00000002", "step-00000006"};
  BOOST_TEST(report->removed == removed);
  check_newest(files, at, 5, samples(2));
  BOOST_TEST(remove_leftovers(files, at)->empty());

  // A damaged checkpoint with a tag is skipped, too, and any flipped byte of `latest` is detected.
  auto& latest = *files.content(at / "latest");
  for (size_t i = 0; i < latest.size(); ++i) {
    latest[i] ^= std::byte{1};
    BOOST_TEST(!open_checkpoint(files, at), "byte " << i);
    latest[i] ^= std::byte{1};
  }
  (*files.content(at / "epoch-1.5" / "shard-00001.bin"))[4096] ^= std::byte{1};
  const auto found = check_ok(open_checkpoint(files, at, {.fallback_to_previous = true}));
  BOOST_TEST(found->folder == at / "best");

  // A folder with the tag's name that contains anything but a checkpoint is not replaced.
  check_ok(files.create(at / "best" / "notes.txt"));
  check_failed(
      checkpoint_save::begin(files, at, 8, 1, random_save_id(), {"best"}), error_kind::bad_input,
      "the tag 'best': '/runs/checkpoints/best' already exists and is not replaced: 'notes.txt' in it does not belong");
  check_failed(checkpoint_save::begin(files, at, 8, 1, random_save_id(), {"../best"}), error_kind::bad_input,
               "the tag '../best': wanted a plain name");
}

BOOST_AUTO_TEST_CASE(a_crash_while_a_checkpoint_with_a_tag_is_replaced_leaves_the_old_or_the_new_one) {
  uint64_t operations = 0;
  {
    fake_files files;
    check_ok(save_sample(files, at, 1, samples(1), 1, {}, random_save_id(), {"v1.0", latest_update::if_replaced}));
    const auto before = files.operations();
    check_ok(save_sample(files, at, 2, samples(2), 1, {}, random_save_id(), {"v1.0", latest_update::if_replaced}));
    operations = files.operations() - before;
  }
  for (uint64_t n = 0; n < operations; ++n)
    for (const auto what : {survival::nothing, survival::everything, survival::any}) {
      fake_files files;
      check_ok(save_sample(files, at, 1, samples(1), 1, {}, random_save_id(), {"v1.0", latest_update::if_replaced}));
      files.lose_power_at(files.operations() + n);
      (void)save_sample(files, at, 2, samples(2), 1, {}, random_save_id(), {"v1.0", latest_update::if_replaced});
      const auto again = files.after_power_cut(what, n);
      check_ok(remove_leftovers(*again, at));
      const auto found = open_checkpoint(*again, at / "v1.0");
      BOOST_TEST_REQUIRE(found.has_value(), "operation " << n << ": " << found.error().text);
      check_loads(*again, *found, samples(found->content.run.step), 1);
      const auto left = check_ok(again->list(at));
      BOOST_TEST(left->size() == 1U);
    }
}

BOOST_AUTO_TEST_CASE(retention_and_clean_up_touch_only_our_own_files) {
  fake_files files;
  for (uint64_t step = 1; step <= 4; ++step) check_ok(save_sample(files, at, step, samples(1), 1));
  const auto foreign = [&](const std::filesystem::path& path) { check_ok(files.create(path)); };
  foreign(at / "step-00000001" / "notes.txt");
  check_ok(files.make_folder(at / "step-00000000"));
  check_ok(files.make_folder(at / "step-best"));
  check_ok(files.make_folder(at / "step-00000009.writing-soon"));
  foreign(at / "latest.writing-me");
  const auto unfinished = "step-00000009.writing-" + to_hex(random_save_id());
  check_ok(files.make_folder(at / unfinished));
  foreign(at / unfinished / "shard-00000.bin");

  const auto report = check_ok(apply_retention(files, at, {.keep_last = 1}));
  const std::vector<std::string> removed{"step-00000002", "step-00000003"};
  BOOST_TEST(report->removed == removed);
  BOOST_REQUIRE(report->spared.size() == 2U);
  BOOST_TEST(report->spared[1] == "step-00000001: 'notes.txt' in it does not belong to the checkpoint");
  const auto left = check_ok(remove_leftovers(files, at));
  BOOST_REQUIRE(left->size() == 1U);
  BOOST_TEST((*left)[0].name == unfinished);
  std::string names;
  const auto now = check_ok(files.list(at));
  for (const auto& e : *now) names += e.name + " ";
  BOOST_TEST(
      names ==
      "latest latest.writing-me step-00000000 step-00000001 step-00000004 step-00000009.writing-soon step-best ");
}

BOOST_AUTO_TEST_CASE(a_checkpoint_with_a_folder_in_it_is_not_removed_and_keeps_its_name) {
  fake_files files;
  for (uint64_t step = 1; step <= 2; ++step) check_ok(save_sample(files, at, step, samples(step), 2));
  check_ok(files.make_folder(at / "step-00000001" / "plots"));
  check_failed(remove_checkpoint(files, at, "step-00000001"), error_kind::bad_input,
               "step-00000001' is not removed: 'plots' in it is not a file; move it elsewhere");
  const auto kept = check_ok(open_checkpoint(files, at / "step-00000001"));
  check_loads(files, *kept, samples(1), 1);
  BOOST_TEST(remove_leftovers(files, at)->empty());
  check_ok(files.remove(at / "step-00000001" / "plots"));
  check_ok(remove_checkpoint(files, at, "step-00000001"));
  check_newest(files, at, 2, samples(2));
  const auto left = check_ok(files.list(at));
  BOOST_TEST(left->size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_leftover_with_a_folder_in_it_stays_and_is_named_and_the_others_are_removed) {
  fake_files files;
  for (const auto mark : {".removing-", ".replaced-", ".writing-"}) {
    BOOST_TEST_INFO_SCOPE(mark);
    check_ok(save_sample(files, at, 1, samples(1), 1));
    const auto name = "step-00000001" + (mark + to_hex(random_save_id()));
    check_ok(files.make_folder(at / "step-00000001" / "plots"));
    check_ok(files.rename(at / "step-00000001", at / name));
    check_ok(save_sample(files, at, 1, samples(2), 1));
    const auto unfinished = "step-00000009.writing-" + to_hex(random_save_id());
    check_ok(files.make_folder(at / unfinished));
    for (const bool again : {false, true}) {
      BOOST_TEST_INFO_SCOPE("again " << again);
      const auto left = check_ok(remove_leftovers(files, at));
      BOOST_REQUIRE(left->size() == (again ? 1U : 2U));
      BOOST_TEST((*left)[0].name == name);
      BOOST_TEST(!(*left)[0].restored);
      BOOST_TEST((*left)[0].kept_for == name + "/plots");
      check_newest(files, at, 1, samples(2));
    }
    BOOST_TEST(files.exists(at / name / "manifest.json").value());
    check_ok(files.remove(at / name / "plots"));
    check_ok(remove_leftovers(files, at));
    BOOST_TEST(!files.exists(at / name).value());
  }
}

BOOST_AUTO_TEST_CASE(an_uncommitted_checkpoint_with_a_folder_in_it_stays_and_the_replaced_one_is_read) {
  fake_files files;
  check_ok(save_sample(files, at, 1, samples(1), 1));
  const auto aside = "step-00000001.replaced-" + to_hex(random_save_id());
  check_ok(files.rename(at / "step-00000001", at / aside));
  const auto latest = *files.content(at / "latest");
  check_ok(save_sample(files, at, 1, samples(2), 1));
  *files.content(at / "latest") = latest;
  check_ok(files.make_folder(at / "step-00000001" / "plots"));
  const auto left = check_ok(remove_leftovers(files, at));
  BOOST_REQUIRE(left->size() == 1U);
  BOOST_TEST((*left)[0].name == aside);
  BOOST_TEST((*left)[0].kept_for == "step-00000001/plots");
  const auto found = check_ok(open_checkpoint(files, at));
  check_loads(files, *found, samples(1), 1);
  check_ok(files.remove(at / "step-00000001" / "plots"));
  const auto later = check_ok(remove_leftovers(files, at));
  BOOST_REQUIRE(later->size() == 1U);
  BOOST_TEST((*later)[0].restored);
  check_newest(files, at, 1, samples(1));
}

BOOST_AUTO_TEST_SUITE_END()
