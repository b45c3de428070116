// Tests swap files at the command line: a wrong folder or budget is refused before the first step in one sentence, a
// later failure ends the run in an orderly way, and the next start removes all files that it left on disk.
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/capability.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/seccomp_filter.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(swap_refusals)

using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const std::string swapped = replaced(smallest, "stage3_max_reuse_distance: 0}",
                                     "stage3_max_reuse_distance: 0,\n"
                                     "  offload_param: {device: nvme, nvme_path: nvme, max_in_cpu: 0},\n"
                                     "  offload_optimizer: {device: nvme, nvme_path: nvme}}");

struct swapping_folder : command_folder {
  swapping_folder() : command_folder(swapped) {}
  [[nodiscard]] finished at(const fs::path& nvme, const std::vector<std::string>& more = {},
                            const std::function<void()>& prepare = {}) const {
    std::vector<std::string> arguments{"train", "job.yaml", "--fresh"};
    for (const char* section : {"offload_param", "offload_optimizer"}) {
      arguments.emplace_back("--set");
      arguments.push_back("zero_optimization." + std::string(section) + ".nvme_path=" + nvme.string());
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return troupe(arguments, prepare);
  }
  [[nodiscard]] process start(const std::vector<std::string>& more) const {
    std::vector<std::string> command{troupe::places::troupe_binary, "train", "job.yaml"};
    command.insert(command.end(), more.begin(), more.end());
    return {command, folder.path()};
  }
  [[nodiscard]] bool is_clean() const { return !fs::exists(folder / "nvme/troupe-swap"); }
};

/// Checks that the error is one sentence that contains all of `parts`; lines about the progress of long work may
/// precede it.
void check_refused(const finished& got, const std::vector<std::string>& parts) {
  BOOST_TEST(got.code != 0);
  BOOST_TEST(got.code < 128);
  BOOST_TEST(sentences_of(got.err) == 1U, got.err);
  for (const auto& part : parts) BOOST_TEST(has(got.err, part), part << " in: " << got.err);
}

std::vector<double> losses_of(const finished& run) {
  std::vector<double> out;
  std::istringstream in(run.out);
  for (std::string line; std::getline(in, line);)
    if (const auto told = nlohmann::json::parse(line); told["event"] == "step") out.push_back(told["loss"]);
  return out;
}

const std::vector<std::string> many_steps = {"--json", "--set", "steps=100000"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_is_refused_by_name) {
  const swapping_folder job;
  check_refused(job.at(job.folder / "no/such/folder"), {"swap folder", "no/such"});
  check_refused(job.at("/sys/kernel/troupe"), {"swap folder", "/sys/kernel/troupe"});
  job.folder.write("file", "in the way");
  check_refused(job.at(job.folder / "file"), {"swap folder", "file", "not a folder"});
}

BOOST_AUTO_TEST_CASE(a_swap_folder_that_is_a_symbolic_link_is_refused) {
  const swapping_folder job;
  fs::create_directories(job.folder / "nvme");
  fs::create_directories(job.folder / "elsewhere");
  fs::create_directory_symlink(job.folder / "elsewhere", job.folder / "nvme/troupe-swap");
  check_refused(job.at(job.folder / "nvme"), {"swap folder", "troupe-swap"});
  BOOST_TEST(fs::is_empty(job.folder / "elsewhere"));
}

BOOST_AUTO_TEST_CASE(a_disk_that_is_too_small_is_refused_with_the_need_by_category_and_the_free_space) {
  const swapping_folder job;
  // The test uses a file system in memory if one exists, because it is smaller than the disk.
  const bool in_memory = fs::is_directory("/dev/shm");
  const scratch_folder small(in_memory ? fs::path("/dev/shm") : fs::temp_directory_path());
  constexpr uint64_t layer_bytes = 12ULL * 2048 * 2048 * 12;  // bytes of a layer's weights and two moments
  const uint64_t layers = 2 * fs::space(small.path()).available / layer_bytes + 2;
  const auto got =
      job.at(small.path(), {"--set", "model.n_embd=2048", "--set", fmt::format("model.n_layer={}", layers), "--set",
                            // The budget is so large that only the disk is too small.
                            "cluster.host_memory_budget=4GiB"});
  check_refused(got, {"swap folder", "wanted", "master weights", "first moments", "second moments", "free"});
  BOOST_TEST(!fs::exists(small / "troupe-swap"));
}

BOOST_AUTO_TEST_CASE(a_second_run_on_one_folder_is_refused_and_the_first_continues) {
  const swapping_folder job;
  auto first = job.start(many_steps);
  BOOST_TEST_REQUIRE(first.wait_for("\"step\":2,"));
  check_refused(job.at(job.folder / "nvme", {"--set", "output=second"}), {"swap folder", "nvme", "in use"});
  BOOST_TEST(first.wait_for("\"step\":6,"));
  first.send(SIGINT);
  BOOST_TEST(first.end().code == 130);
  BOOST_TEST(job.is_clean());
}

BOOST_AUTO_TEST_CASE(leftovers_of_a_killed_run_are_gone_after_the_next) {
  const swapping_folder job;
  auto killed = job.start(many_steps);
  BOOST_TEST_REQUIRE(killed.wait_for("\"step\":2,"));
  killed.send(SIGKILL);
  BOOST_TEST(killed.end().code == 128 + SIGKILL);
  BOOST_TEST(fs::exists(job.folder / "nvme/troupe-swap"));
  check_exit(0, job.at(job.folder / "nvme"));
  BOOST_TEST(job.is_clean());
}

BOOST_AUTO_TEST_CASE(a_swap_file_that_goes_away_ends_the_run_with_its_last_checkpoint_intact) {
  const swapping_folder job;
  auto run = job.start({"--json", "--set", "steps=100000", "--set", "checkpoint.every_steps=2"});
  BOOST_TEST_REQUIRE(run.wait_for("\"step\":5,"));
  fs::path file;
  for (const auto& entry : fs::directory_iterator(job.folder / "nvme/troupe-swap"))
    if (entry.path().filename().string().starts_with("rank0")) file = entry.path();
  BOOST_TEST_REQUIRE(::truncate(file.c_str(), 0) == 0);
  const auto got = run.end();
  BOOST_TEST(got.code != 0);
  BOOST_TEST(got.code < 128);
  BOOST_TEST(has(got.err, file.filename().string()), got.err);
  BOOST_TEST(job.is_clean());
  const auto verified = job.troupe({"checkpoint", "verify", "out/checkpoints"});
  BOOST_TEST(verified.code == 0, verified.out << verified.err);
}

BOOST_AUTO_TEST_CASE(a_budget_that_is_too_small_is_refused_with_the_largest_unit_and_the_smallest_that_works) {
  const swapping_folder job;
  const auto budget = [&](const std::string& bytes) {
    return job.at(job.folder / "nvme", {"--set", "cluster.host_memory_budget=" + bytes});
  };
  const auto got = budget("10000");
  check_refused(got, {"cluster.host_memory_budget", "wanted at least", "got 10000", "largest unit"});
  const auto number = got.err.substr(got.err.find("wanted at least ") + 16);
  const uint64_t least = std::stoull(number);
  BOOST_TEST(budget(fmt::to_string(least)).code == 0);
  BOOST_TEST(budget(fmt::to_string(least - 1)).code != 0);
}

BOOST_AUTO_TEST_CASE(memory_that_may_not_be_locked_is_reported_once_and_the_run_continues) {
  const swapping_folder job;
  const auto got = job.at(job.folder / "nvme", {}, [] {
    const rlimit none{0, 0};
    // Root must not be exempt from the limit, so the capability is dropped.
    (void)::prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0);
    if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0) ::_exit(125);
  });
  BOOST_TEST(got.code == 0, got.err);
#ifdef __SANITIZE_ADDRESS__
  BOOST_TEST_MESSAGE("a sanitizer stands before mlock: nothing is locked, and nothing refused");
  return;
#endif
  const auto first = got.err.find("ulimit -l");
  BOOST_TEST(first != std::string::npos, got.err);
  BOOST_TEST(got.err.find("ulimit -l", first + 1) == std::string::npos, got.err);
}

BOOST_AUTO_TEST_CASE(where_a_containers_filter_refuses_rings_threads_swap_and_the_losses_are_the_same) {
  const swapping_folder job;
  const std::vector<std::string> few_steps = {"--json", "--set", "steps=3"};
  const auto filtered = job.at(job.folder / "nvme", few_steps, forbid_io_uring);
  if (filtered.code == no_filter) {
    troupe::tests::say_skipped("swapping where rings are forbidden", "this kernel takes no seccomp filter from us");
    return;
  }
  BOOST_TEST_REQUIRE(filtered.code == 0, filtered.err);
  BOOST_TEST(has(filtered.err, "reading and writing with threads instead"), filtered.err);
  const auto free = check_exit(0, job.at(job.folder / "nvme", few_steps));
  BOOST_TEST(losses_of(free).size() == 3U);
  BOOST_TEST(losses_of(filtered) == losses_of(free), boost::test_tools::per_element());
  BOOST_TEST(job.is_clean());
}

BOOST_AUTO_TEST_SUITE_END()
