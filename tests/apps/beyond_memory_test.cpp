// Runs the README's example of training beyond memory: states of four times the budget of host memory, on disk, with
// the bits of the run in memory. The kernel enforces the budget: RLIMIT_DATA is the memory that the program uses
// without states, plus the budget.
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

#include <sys/resource.h>

#include <cmath>
#include <sstream>

#include <nlohmann/json.hpp>

BOOST_AUTO_TEST_SUITE(beyond_memory)

using namespace troupe::tests;
using nlohmann::json;

namespace {

/// Allowance for activations that malloc keeps between two uses and for the io lanes themselves, in bytes: a sixth of
/// the states.
constexpr uint64_t slack_bytes = uint64_t{24} << 20;
constexpr uint64_t budget_bytes = uint64_t{36} << 20;
/// Limit of a thread's stack. RLIMIT_DATA counts whole stacks, however little of them is used, and the number of
/// simultaneous threads differs by several between equal runs; stacks of the system's 8 MiB would outweigh the measured
/// bytes.
constexpr rlimit stacks{uint64_t{1} << 20, uint64_t{1} << 20};

const std::vector<std::string> in_memory = {"--set", "zero_optimization.offload_param.device=none",
                                            "--set", "zero_optimization.offload_optimizer.device=none",
                                            "--set", "cluster.swap_gradients=false",
                                            "--set", "cluster.host_memory_budget=0"};

struct watched {
  finished did;
  std::vector<json> lines;
  uint64_t data_bytes = 0;  // largest sample of the program's private writable memory
};

watched train(const scratch_folder& folder, const std::vector<std::string>& more, uint64_t data_limit) {
  std::vector<std::string> command = {troupe::places::troupe_binary,
                                      "train",
                                      std::string(troupe::places::source_dir) + "/examples/beyond_memory.yaml",
                                      "--steps",
                                      "3",
                                      "--json",
                                      "--fresh"};
  for (const char* section : {"offload_param", "offload_optimizer"}) {
    command.emplace_back("--set");
    command.push_back("zero_optimization." + std::string(section) + ".nvme_path=" + (folder / "nvme").string());
  }
  command.insert(command.end(), more.begin(), more.end());
  process p(command, folder.path(), [data_limit] {
    if (::setrlimit(RLIMIT_STACK, &stacks) != 0) ::_exit(125);
    if (data_limit == 0) return;
    const rlimit limit{data_limit, data_limit};
    if (::setrlimit(RLIMIT_DATA, &limit) != 0) ::_exit(125);
  });
  watched out;
  while (p.wait_for_work(std::chrono::milliseconds(10))) out.data_bytes = std::max(out.data_bytes, p.data_bytes());
  out.did = p.end();
  std::istringstream text(out.did.out);
  for (std::string line; std::getline(text, line);) out.lines.push_back(json::parse(line));
  return out;
}

std::vector<double> losses_of(const watched& x) {
  std::vector<double> out;
  for (const auto& line : x.lines)
    if (line["event"] == "step") out.push_back(line["loss"]);
  return out;
}

uint64_t sum(const watched& x, const char* owner) {
  uint64_t out = 0;
  for (const auto& rank : x.lines.back()["memory"]["host"]) out += rank[owner].get<uint64_t>();
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(states_of_four_times_the_budget_train_under_a_limit_of_the_kernel_with_the_same_losses) {
  const scratch_folder folder;
  const auto memory = train(folder, in_memory, 0);
  BOOST_TEST_REQUIRE(memory.did.code == 0, memory.did.err);
  const uint64_t states = memory.lines.back()["model_parameters"].get<uint64_t>() * 16;
  BOOST_TEST(states >= 4 * budget_bytes);
  BOOST_TEST_REQUIRE(memory.data_bytes > sum(memory, "total"));
  [[maybe_unused]] const uint64_t base = memory.data_bytes - sum(memory, "total");
#ifdef __SANITIZE_ADDRESS__
  BOOST_TEST_MESSAGE("a sanitizer's own memory counts, too: the kernel's limit is left out");
  const uint64_t limit = 0;
#else
  const uint64_t limit = base + sum(memory, "activations_peak") + budget_bytes + slack_bytes;
  BOOST_TEST(limit < memory.data_bytes);
#endif

  const auto files = train(folder, {}, limit);
  BOOST_TEST_REQUIRE(files.did.code == 0, files.did.err);
  BOOST_TEST(losses_of(files).size() == 3U);
  BOOST_TEST(losses_of(files) == losses_of(memory), boost::test_tools::per_element());
  BOOST_TEST(sum(files, "total") - sum(files, "activations_peak") - sum(files, "votes") <= budget_bytes);
  BOOST_TEST(sum(files, "swapped") > 2 * budget_bytes);
  BOOST_TEST(!std::filesystem::exists(folder / "nvme/troupe-swap"));

  if (limit == 0) return;
  const auto refused = train(folder, in_memory, limit);
  BOOST_TEST(refused.did.code != 0);
  BOOST_TEST(refused.did.code < 128);
  BOOST_TEST(sentences_of(refused.did.err) == 1U, refused.did.err);
  BOOST_TEST(has(refused.did.err, "memory: wanted"), refused.did.err);
}

BOOST_AUTO_TEST_CASE(checkpoints_beside_a_budget_take_of_it_what_it_can_spare) {
  const scratch_folder folder;
  const auto saves = train(folder, {"--set", "checkpoint.every_steps=2", "--set", "output=out"}, 0);
  BOOST_TEST_REQUIRE(saves.did.code == 0, saves.did.err);
  BOOST_TEST(std::filesystem::exists(folder / "out/checkpoints/step-00000002/manifest.json"));
  BOOST_TEST(std::filesystem::exists(folder / "out/checkpoints/step-00000003/manifest.json"));
  // A staging size set by the user is not reduced, and the refusal names it as the memory that does not fit.
  const auto too_much =
      train(folder,
            {"--set", "checkpoint.every_steps=2", "--set", "checkpoint.staging_bytes=64MiB", "--set", "output=out"}, 0);
  BOOST_TEST(too_much.did.code == 2);
  BOOST_TEST(has(too_much.did.err, " MiB of each rank (checkpoint.staging_bytes)"), too_much.did.err);
}

BOOST_AUTO_TEST_SUITE_END()
