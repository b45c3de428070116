// Tests processes that are killed while they save, at every operation and at any instant.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "tests/apps/process.hpp"
#include "tests/crash/story.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(killed)

using namespace troupe;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

finished save(const std::filesystem::path& root, const std::string& when) {
  return run({troupe::places::saver_binary, root.string(), when}, root.parent_path());
}

void check_after(const finished& f, const std::filesystem::path& root) {
  const auto lines = lines_of(f.out);
  const auto done = static_cast<size_t>(std::count(lines.begin(), lines.end(), "committed"));
  story::check(real_files(), root, done);
}

/// Returns a folder in memory for runs that are killed at a numbered operation: written data survives a kill on any
/// file system, and a sync in memory costs nothing.
std::filesystem::path memory_folder() {
  const std::filesystem::path shared = "/dev/shm";
  return ::access(shared.c_str(), W_OK) == 0 ? shared : std::filesystem::temp_directory_path();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_process_killed_at_every_named_point_leaves_the_newest_committed_checkpoint) {
  const scratch_folder first(memory_folder());
  const auto whole = save(first / "checkpoints", "never");
  BOOST_REQUIRE_MESSAGE(whole.code == 0, whole.err);
  std::vector<std::string> points;
  for (const auto& line : lines_of(whole.out))
    if (line != "committed" && line.find("microseconds") == std::string::npos) points.push_back(line);
  for (const char* action : {"create", "write", "sync ", "sync folder", "rename", "unlink", "mkdir"})
    BOOST_TEST(std::count_if(points.begin(), points.end(), [&](const auto& p) { return p.starts_with(action); }) > 3,
               action);
  BOOST_TEST(points.size() > 150U);
  for (size_t n = 0; n < points.size(); ++n) {
    BOOST_TEST_CONTEXT(n << ": " << points[n]) {
      const bool writes = points[n].find("write") != std::string::npos;
      const scratch_folder folder(memory_folder());
      const auto root = folder / "checkpoints";
      const auto f = save(root, fmt::format("{}{}", writes ? "torn:" : "at:", n));
      BOOST_TEST(f.code == 128 + SIGKILL);
      check_after(f, root);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_process_killed_at_random_instants_leaves_the_newest_committed_checkpoint) {
  const scratch_folder first;
  const auto whole = save(first / "checkpoints", "never");
  BOOST_REQUIRE_MESSAGE(whole.code == 0, whole.err);
  const uint64_t whole_us = std::stoull(lines_of(whole.out).back());
  for (uint64_t round = 0; round < wanted_cases("TROUPE_KILLS", 20); ++round) {
    const uint64_t after = core::mix64(round) % whole_us;
    BOOST_TEST_CONTEXT("killed after " << after << " microseconds") {
      const scratch_folder folder;
      const auto root = folder / "checkpoints";
      const auto f = save(root, fmt::format("after:{}", after));
      BOOST_TEST((f.code == 128 + SIGKILL || f.code == 0), f.err);  // a fast process may be done before the kill
      check_after(f, root);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
