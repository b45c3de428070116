// Kills the real program at random instants while it saves every step, with or without the loss of data that were not
// synced, and starts it again each time.
#include <fmt/format.h>

#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/native/native_source.hpp"
#include "core/math.hpp"
#include "storage/files/working_folder.hpp"
#include "tests/apps/topology.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(train_killed)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::storage;
using namespace troupe::tests;
using nlohmann::json;

namespace {

/// Returns the losses of a run by step; the last line of its output may be incomplete.
std::map<uint64_t, double> losses_of(const std::string& out) {
  std::map<uint64_t, double> losses;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto event = json::parse(line, nullptr, false);
    if (event.is_object() && event.contains("loss") && event.contains("step")) losses[event["step"]] = event["loss"];
  }
  return losses;
}

/// Returns the step of the checkpoint with which a run begins, and checks all its bytes; 0: there is none yet. If the
/// first run was killed after it named its checkpoint and before it wrote `latest`, the next run begins with that
/// checkpoint although `latest` does not name it.
uint64_t newest_step(const std::filesystem::path& root) {
  const bool named = std::filesystem::exists(root / latest_file_name);
  const auto found = open_checkpoint(real_files(), root, {.fallback_to_previous = !named});
  if (!found) return 0;
  const auto report = check_ok(verify_checkpoint(real_files(), found->folder));
  BOOST_TEST(report->damages == 0U);
  return found->content.run.step;
}

/// Does to the files of a killed run that were never synced, its swap files and the files of a checkpoint in progress,
/// what a power cut may do: removes a file, cuts its end off, or loses a page of it. Returns the number of swap files
/// that were changed.
uint64_t lose_unsynced(const std::filesystem::path& folder, uint64_t seed) {
  std::vector<std::filesystem::path> unsynced;
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = e.path().string();
    const bool is_of_save = path.find(writing_mark) != path.npos, is_of_swap = path.find("/troupe-swap/") != path.npos;
    if (e.is_regular_file() && e.file_size() > 0 && (is_of_save || is_of_swap)) unsynced.push_back(e.path());
  }
  uint64_t swap_files = 0;
  for (const auto& path : unsynced) {
    seed = core::mix64(seed + 1);
    const uint64_t at = seed / 3 % std::filesystem::file_size(path);
    swap_files += path.extension() == ".swap" ? 1 : 0;
    if (seed % 3 == 0) {
      std::filesystem::remove(path);
    } else if (seed % 3 == 1) {
      std::filesystem::resize_file(path, at);
    } else {
      std::fstream page(path, std::ios::in | std::ios::out | std::ios::binary);
      page.seekp(static_cast<std::streamoff>(at));
      page << std::string(4096, '\0');
    }
  }
  return swap_files;
}

/// How a run ends: its process is killed, or its machine loses power.
enum class ending : uint8_t { killed, power_cut };

/// Ends a run of this job, with more steps, `kills` times in this way, and compares its losses with those of a run
/// without kills.
void check_killed(uint64_t kills, const std::string& yaml, ending how = ending::killed) {
  const uint64_t steps = 4 * kills + 4;
  const std::string job =
      replaced(yaml, "steps: 6", fmt::format("steps: {}", steps)) + "checkpoint: {every_steps: 1, keep_last: 2}\n";
  const command_folder whole(job), cut(job);
  const std::vector<std::string> train{troupe::places::troupe_binary, "train", "job.yaml", "--json"};
  const auto reference = check_exit(0, whole.troupe({"train", "job.yaml", "--json"}));
  const auto wanted = losses_of(reference.out);
  BOOST_REQUIRE(wanted.size() == steps);

  const auto root = cut.folder.path() / "out/checkpoints";
  uint64_t reached = 0, swap_files = 0;
  const auto compare = [&](const finished& f) {
    const auto got = losses_of(f.out);
    // The run must begin after the newest committed checkpoint.
    if (!got.empty()) BOOST_TEST(got.begin()->first == reached + 1);
    for (const auto& [step, loss] : got) BOOST_TEST(loss == wanted.at(step), "step " << step);
  };
  for (uint64_t round = 0; round < kills; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    process p(train, cut.folder.path());
    const uint64_t draw = core::mix64(round);
    const bool begun = p.wait_for(fmt::format("\"step\":{},", std::min(steps, reached + 1 + draw % 4)));
    const bool at_it = begun && p.wait_for_work(std::chrono::milliseconds(draw / 4 % 40));
    p.send(SIGKILL);
    const auto f = p.end();
    BOOST_TEST((f.code == 128 + SIGKILL || (!at_it && f.code == 0)), f.err);
    compare(f);
    if (how == ending::power_cut) swap_files += lose_unsynced(cut.folder.path(), draw);
    const uint64_t now = newest_step(root);
    BOOST_TEST(now >= reached);
    reached = now;
  }
  const auto last = check_exit(0, cut.troupe({"train", "job.yaml", "--json"}));
  compare(last);
  BOOST_TEST((swap_files > 0) == (how == ending::power_cut));
  BOOST_TEST(newest_step(root) == steps);
  for (const auto& e : std::filesystem::directory_iterator(root)) {
    const auto name = e.path().filename().string();
    BOOST_TEST((name == "latest" || name == ".lock" || step_of(name)), name << " stayed");
  }
}

/// A job whose updates of states in swap files run before the vote, which clips some steps: the states have two places
/// in these files.
const std::string two_places =
    replaced(smallest, "{stage: 3",
             "{stage: 3, offload_optimizer: {device: nvme, nvme_path: swap}, offload_param: {device: nvme, nvme_path: "
             "swap}") +
    "cluster: {early_updates: true, swap_gradients: true}\ngradient_clipping: 2.0\n";

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_killed_at_random_instants_resumes_with_the_losses_of_one_that_was_not) {
  check_killed(std::max<uint64_t>(1, wanted_cases("TROUPE_KILLS", 40) / 10), smallest);
}

// Swap files of a killed run are removed or stale, so a run reads its states from the checkpoint, whichever of the two
// copies in the swap files was valid. In some steps the norm exceeds the limit, and the updates of these steps are
// repeated.
BOOST_AUTO_TEST_CASE(a_run_with_two_places_in_its_swap_files_resumes_with_the_same_losses_when_it_is_killed) {
  check_killed(std::max<uint64_t>(1, wanted_cases("TROUPE_KILLS", 40) / 20), two_places);
}

// A power cut leaves either place of a sub-group's states whole, lost or torn.
BOOST_AUTO_TEST_CASE(a_run_with_two_places_in_its_swap_files_resumes_with_the_same_losses_when_the_power_goes) {
  check_killed(std::max<uint64_t>(2, wanted_cases("TROUPE_KILLS", 40) / 20), two_places, ending::power_cut);
}

BOOST_AUTO_TEST_SUITE_END()
