// Crashes at every instant: on a file system that loses or tears what was not synced, and of real processes.
#include "checkpoint/commit.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>

#include "checkpoint/native_fake_files.hpp"
#include "checkpoint/retention.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::tests;
using core::error_kind;

namespace {

const std::filesystem::path checkpoints = "/runs/checkpoints";
const auto& at = checkpoints;

/// What a run does: three steps, the second saved again with other bytes, retention, clean-up. Counts the commits.
struct story {
  struct chapter {
    uint64_t step, seed;
  };
  static constexpr std::array<chapter, 4> chapters{{{10, 1}, {20, 2}, {20, 3}, {30, 4}}};

  /// Chapters whose commit returned; the next may have been committed too when the power went.
  using progress = std::function<void()>;
  static size_t tell(file_system& files, const std::filesystem::path& at = checkpoints, const progress& note = {}) {
    size_t done = 0;
    for (const auto& c : chapters) {
      if (!remove_leftovers(files, at)) return done;
      manifest m;
      m.run.seed = c.seed;
      if (!save_sample(files, at, c.step, samples(c.seed), 2, m)) return done;
      ++done;
      if (note) note();
      if (!apply_retention(files, at, {.keep_last = 2})) return done;
    }
    return done;
  }

  static const std::vector<sample_tensor>& samples(uint64_t seed) {
    static std::map<uint64_t, std::vector<sample_tensor>> all;
    auto& out = all[seed];
    if (out.empty()) out = sample_tensors(seed);
    return out;
  }

  /// After a crash behind `done` commits: the newest committed one loads, before and after the clean-up.
  static void check(file_system& files, size_t done, const std::filesystem::path& at = checkpoints) {
    for (int cleaned = 0; cleaned < 2; ++cleaned) {
      const auto found = open_checkpoint(files, at);
      if (!found) {
        BOOST_TEST(done == 0U, found.error().text);
      } else {
        // the chapter that was on its way may be there as a whole
        const size_t last = std::min(done, chapters.size() - 1);
        const uint64_t seed = found->content.run.seed;
        BOOST_REQUIRE(seed >= 1);
        const bool fits = seed == done || seed == last + 1;
        BOOST_TEST(fits, "chapter " << seed << " behind " << done << " commits");
        const auto report = verify_checkpoint(files, found->folder);
        check_ok(report);
        BOOST_TEST(report->damages == 0U);
        BOOST_TEST(report->pieces > 0U);
        BOOST_TEST((*find_tensor(found->content, "h.0.bias", tensor_kind::master)).pieces[0].digest ==
                   digest_of(samples(seed)[4].data));
      }
      if (cleaned == 0) check_ok(remove_leftovers(files, at));
    }
    if (const auto all = files.list(at))
      for (const auto& e : *all) {
        BOOST_TEST((e.name == "latest" || step_of(e.name)), e.name << " stayed");
        if (e.kind != entry_kind::folder) continue;
        const auto report = verify_checkpoint(files, at / e.name);  // a part of one never has its name
        check_ok(report);
        BOOST_TEST(report->damages == 0U);
      }
  }
};

/// The real file system, that ends its process with SIGKILL at the n-th operation: `torn` in the middle of it (half of
/// a write), else just before it. What was done before is there, as a killed process leaves it.
class killer : public file_system {
 public:
  killer(uint64_t n, bool torn) : n_(n), torn_(torn) {}
  std::vector<std::string> points;  ///< names of all operations

  core::result<std::unique_ptr<output_file>> create(const std::filesystem::path& path) override {
    point("create", path);
    auto file = real_files().create(path);
    if (!file) return file;
    return std::make_unique<output>(*this, std::move(*file), path);
  }
  core::result<std::unique_ptr<input_file>> open(const std::filesystem::path& path) override {
    return real_files().open(path);
  }
  core::result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    point("rename", to);
    return real_files().rename(from, to);
  }
  core::result<void> remove(const std::filesystem::path& path) override {
    point("unlink", path);
    return real_files().remove(path);
  }
  core::result<void> make_folder(const std::filesystem::path& path) override {
    point("mkdir", path);
    return real_files().make_folder(path);
  }
  core::result<void> sync_folder(const std::filesystem::path& path) override {
    point("sync folder", path);
    return {};
  }
  core::result<std::vector<folder_entry>> list(const std::filesystem::path& path) override {
    return real_files().list(path);
  }
  core::result<bool> exists(const std::filesystem::path& path) override { return real_files().exists(path); }
  core::result<uint64_t> free_bytes(const std::filesystem::path& path) override {
    return real_files().free_bytes(path);
  }

 private:
  struct output : output_file {
    output(killer& k, std::unique_ptr<output_file> f, std::filesystem::path p)
        : owner(&k), file(std::move(f)), path(std::move(p)) {}
    core::result<void> write(std::span<const std::byte> bytes) override {
      if (owner->torn_ && owner->points.size() == owner->n_) (void)file->write(bytes.first(bytes.size() / 2));
      owner->point("write", path);
      return file->write(bytes);
    }
    core::result<void> sync() override {
      owner->point("sync", path);
      return file->sync();
    }
    killer* owner;
    std::unique_ptr<output_file> file;
    std::filesystem::path path;
  };

  void point(const char* deed, const std::filesystem::path& path) {
    if (points.size() == n_) ::kill(::getpid(), SIGKILL);
    points.push_back(std::string(deed) + " " + path.filename().string());
  }

  uint64_t n_;
  bool torn_;
};

/// Runs `deed` in a process of its own, killed after `microseconds` where that is not negative; the commits it counted.
size_t child_tells(const std::filesystem::path& root, const std::function<void(const story::progress&)>& deed,
                   int64_t microseconds = -1) {
  std::array<int, 2> pipe{};
  BOOST_REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[0]);
    const char byte = 'c';
    deed([&] { (void)!::write(pipe[1], &byte, 1); });
    ::_exit(0);
  }
  ::close(pipe[1]);
  if (microseconds >= 0) {
    timespec until{microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
    pollfd nothing{-1, 0, 0};
    ::ppoll(&nothing, 1, &until, nullptr);  // the instant is the test's input, nothing is awaited
    ::kill(child, SIGKILL);
  }
  size_t done = 0;
  for (char byte = 0; ::read(pipe[0], &byte, 1) == 1;) ++done;
  ::close(pipe[0]);
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  BOOST_TEST((killed || microseconds >= 0), "the child of " << root << " was not killed");
  return done;
}

}  // namespace

namespace troupe::checkpoint {
inline std::ostream& operator<<(std::ostream& out, const digest128& d) { return out << to_hex(d); }
}  // namespace troupe::checkpoint

BOOST_AUTO_TEST_SUITE(commit)

BOOST_AUTO_TEST_CASE(the_power_goes_at_every_operation_and_the_newest_committed_checkpoint_loads) {
  fake_files whole;
  BOOST_REQUIRE(story::tell(whole) == story::chapters.size());
  BOOST_TEST(whole.operations() > 100U);
  for (uint64_t n = 0; n <= whole.operations(); ++n) {
    fake_files files;
    files.lose_power_at(n);
    const size_t done = story::tell(files);
    for (const auto what : {survival::nothing, survival::everything}) {
      const auto after = files.after_power_cut(what);
      story::check(*after, done);
      BOOST_TEST(story::tell(*after) == story::chapters.size(), "cannot go on after " << n);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_thousand_ways_to_lose_and_tear_what_was_not_synced) {
  fake_files whole;
  story::tell(whole);
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    fake_files files;
    files.lose_power_at(core::mix64(seed) % (whole.operations() + 1));
    const size_t done = story::tell(files);
    const auto after = files.after_power_cut(survival::any, seed);
    story::check(*after, done);
  }
}

BOOST_AUTO_TEST_CASE(a_process_killed_at_every_named_point_leaves_the_newest_committed_checkpoint) {
  std::vector<std::string> points;
  {
    const scratch_folder folder;
    killer files(UINT64_MAX, false);
    BOOST_REQUIRE(story::tell(files, folder / "checkpoints") == story::chapters.size());
    points = files.points;
  }
  BOOST_TEST(points.size() > 100U);
  for (size_t n = 0; n < points.size(); ++n) {
    const scratch_folder folder;
    const auto root = folder / "checkpoints";
    const bool torn = points[n].starts_with("write");  // half of it is written
    const size_t done = child_tells(root, [&](const story::progress& note) {
      killer files(n, torn);
      story::tell(files, root, note);
    });
    story::check(real_files(), done, root);
  }
}

BOOST_AUTO_TEST_CASE(a_process_killed_at_random_instants_leaves_the_newest_committed_checkpoint) {
  uint64_t whole_us = 0;  // of a story that nobody interrupts
  {
    const scratch_folder folder;
    const auto begin = std::chrono::steady_clock::now();
    BOOST_REQUIRE(story::tell(real_files(), folder / "checkpoints") == story::chapters.size());
    const auto took = std::chrono::steady_clock::now() - begin;
    whole_us = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()) + 1;
  }
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    const scratch_folder folder;
    const auto root = folder / "checkpoints";
    const size_t done = child_tells(
        root, [&](const story::progress& note) { story::tell(real_files(), root, note); },
        static_cast<int64_t>(random() % whole_us));
    story::check(real_files(), done, root);
  }
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_the_old_checkpoint_and_says_how_much_is_missing) {
  fake_files files(400'000);
  check_ok(save_sample(files, at, 1, story::samples(1), 1));
  check_failed(checkpoint_save::begin(files, at, 2, 1'000'000), error_kind::no_space,
               "a checkpoint of 1000000 bytes does not fit into '/runs/checkpoints': ");
  core::result<std::filesystem::path> last;
  for (uint64_t step = 2; last; ++step) last = save_sample(files, at, step, story::samples(1), 1);
  BOOST_TEST(static_cast<int>(last.error().kind) == static_cast<int>(error_kind::no_space));
  const auto found = open_checkpoint(files, at);
  check_ok(found);
  check_newest(files, at, found->content.run.step, story::samples(1));
  BOOST_TEST(remove_leftovers(files, at)->empty());  // the failed save took its files away itself
}

BOOST_AUTO_TEST_CASE(latest_that_names_nothing_or_another_manifest_is_refused) {
  fake_files files;
  check_failed(open_checkpoint(files, "/"), error_kind::bad_input, "is no checkpoint and names none");
  check_ok(save_sample(files, at, 10, story::samples(1), 1));
  check_ok(save_sample(files, at, 20, story::samples(2), 1));
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
  say("step-00000010");  // by hand, to go back
  check_newest(files, at, 10, story::samples(1));
  say("../other");
  check_failed(open_checkpoint(files, at), error_kind::bad_input, "does not begin with the name of a checkpoint");
  say("step-00000015\n");
  check_failed(open_checkpoint(files, at), error_kind::bad_input, "'/runs/checkpoints/latest' names 'step-00000015'");
}

BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_is_passed_over_for_the_newest_good_one_and_said) {
  fake_files good;
  for (const uint64_t step : {10, 20, 30}) check_ok(save_sample(good, at, step, story::samples(step), 2));
  std::vector<std::string> said;
  const auto open = [&](fake_files& files, good_enough check) {
    said.clear();
    const auto say = [&](const std::string& text) { said.push_back(text); };
    return open_checkpoint(files, at, {.fallback_to_previous = true, .fallback_check = check, .say = say});
  };
  const auto step_of_newest = [&](fake_files& files, good_enough check) -> uint64_t {
    const auto found = open(files, check);
    check_ok(found);
    check_loads(files, *found, story::samples(found->content.run.step), 1);
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
  {  // a payload: only reading it tells
    const auto files = damaged({{shard, 4096}});
    check_ok(open(*files, good_enough::opens));
    BOOST_TEST(said.empty());
    BOOST_TEST(step_of_newest(*files, good_enough::verifies) == 20U);
    BOOST_REQUIRE(said.size() == 2U);
    BOOST_TEST(said[0].find("passed over: '/runs/checkpoints/step-00000030/shard-00001.bin': the ") == 0U, said[0]);
    BOOST_TEST(said[0].find("at byte 4096") != std::string::npos, said[0]);
    BOOST_TEST(said[1] == "taken instead: '/runs/checkpoints/step-00000020'");
  }
  for (const auto check : {good_enough::opens, good_enough::verifies}) {
    BOOST_TEST(step_of_newest(*damaged({{shard, 100}}), check) == 20U);
    BOOST_TEST(step_of_newest(*damaged({{"step-00000030/manifest.json", 300}}), check) == 20U);
    BOOST_TEST(step_of_newest(*damaged({{shard, 0}, {"step-00000020/manifest.json", 300}}), check) == 10U);
    BOOST_TEST(said.size() == 3U);
    BOOST_TEST(step_of_newest(*damaged({{"latest", 0}}), check) == 30U);   // only `latest` itself is bad
    BOOST_TEST(step_of_newest(*damaged({{"latest", 20}}), check) == 30U);  // the digest in it
    const auto none = damaged({{shard, 0}, {"step-00000020/manifest.json", 300}, {"step-00000010/shard-00000.bin", 4}});
    check_failed(open(*none, check), error_kind::bad_input, "none of the 3 checkpoints in '/runs/checkpoints' is good");
  }
  {  // a missing file, then a missing folder, then no `latest`
    const auto files = damaged({});
    check_ok(files->remove(at / shard));
    BOOST_TEST(step_of_newest(*files, good_enough::opens) == 20U);
    check_ok(remove_checkpoint(*files, at, "step-00000030"));
    BOOST_TEST(step_of_newest(*files, good_enough::opens) == 20U);
    check_ok(files->remove(at / "latest"));
    BOOST_TEST(step_of_newest(*files, good_enough::opens) == 20U);
  }
  {  // who went back by hand did not mean newer ones
    const auto files = damaged({{"step-00000020/manifest.json", 300}});
    const std::string_view text = "step-00000020\n";
    const auto bytes = std::as_bytes(std::span(text));
    files->content(at / "latest")->assign(bytes.begin(), bytes.end());
    BOOST_TEST(step_of_newest(*files, good_enough::opens) == 10U);
  }
  fake_files empty;
  check_failed(open(empty, good_enough::opens), error_kind::bad_input, "'/runs/checkpoints'");
  // a run can go on from there: what it saves replaces what is damaged
  const auto files = damaged({{shard, 0}, {"latest", 3}});
  check_ok(remove_leftovers(*files, at));
  check_ok(open(*files, good_enough::verifies));
  check_ok(save_sample(*files, at, 30, story::samples(1), 2));
  check_newest(*files, at, 30, story::samples(1));
}

BOOST_AUTO_TEST_CASE(a_damaged_latest_leaves_a_replaced_checkpoint_alone) {
  fake_files files;
  check_ok(save_sample(files, at, 10, story::samples(1), 1));
  const auto aside = at / ("step-00000010.replaced-" + to_hex(random_save_id()));
  const auto writing = at / ("step-00000011.writing-" + to_hex(random_save_id()));
  check_ok(files.rename(at / "step-00000010", aside));
  check_ok(files.make_folder(writing));
  (*files.content(at / "latest"))[2] ^= std::byte{1};
  const auto left = remove_leftovers(files, at);
  check_ok(left);
  BOOST_REQUIRE(left->size() == 1U);
  BOOST_TEST((*left)[0].name == writing.filename());
  const auto found = open_checkpoint(files, at, {.fallback_to_previous = true});
  check_ok(found);
  BOOST_TEST(found->folder == aside);
  check_loads(files, *found, story::samples(1), 1);
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
  const std::vector<uint64_t> steps{50, 10, 20, 30, 40};
  const std::vector<uint64_t> none, old{10, 20, 30}, odd{10, 30}, not_named{20, 30, 40};
  BOOST_TEST(steps_to_remove(steps, 50, {}) == none);
  BOOST_TEST(steps_to_remove(steps, 50, {.keep_last = 2}) == old);
  BOOST_TEST(steps_to_remove(steps, 50, {.keep_last = 2, .keep_every = 20}) == odd);
  BOOST_TEST(steps_to_remove(steps, 10, {.keep_last = 1}) == not_named);
  BOOST_TEST(steps_to_remove(steps, 50, {.keep_last = 9}) == none);
}

BOOST_AUTO_TEST_CASE(retention_and_clean_up_touch_only_what_is_ours) {
  fake_files files;
  for (uint64_t step = 1; step <= 4; ++step) check_ok(save_sample(files, at, step, story::samples(1), 1));
  const auto foreign = [&](const std::filesystem::path& path) { check_ok(files.create(path)); };
  foreign(at / "step-00000001" / "notes.txt");
  check_ok(files.make_folder(at / "step-00000000"));
  check_ok(files.make_folder(at / "step-best"));
  check_ok(files.make_folder(at / "step-00000009.writing-soon"));
  foreign(at / "latest.writing-me");
  const auto unfinished = "step-00000009.writing-" + to_hex(random_save_id());
  check_ok(files.make_folder(at / unfinished));
  foreign(at / unfinished / "shard-00000.bin");

  const auto report = apply_retention(files, at, {.keep_last = 1});
  check_ok(report);
  const std::vector<std::string> removed{"step-00000002", "step-00000003"};
  BOOST_TEST(report->removed == removed);
  BOOST_REQUIRE(report->spared.size() == 2U);
  BOOST_TEST(report->spared[1] == "step-00000001: 'notes.txt' in it is not of the checkpoint");
  const auto left = remove_leftovers(files, at);
  check_ok(left);
  BOOST_REQUIRE(left->size() == 1U);
  BOOST_TEST((*left)[0].name == unfinished);
  std::string names;
  const auto now = files.list(at);
  check_ok(now);
  for (const auto& e : *now) names += e.name + " ";
  BOOST_TEST(
      names ==
      "latest latest.writing-me step-00000000 step-00000001 step-00000004 step-00000009.writing-soon step-best ");
}

BOOST_AUTO_TEST_SUITE_END()
