// Tests what a machine stores of a checkpoint whose files are on the disks of several machines, and what it removes.
#include "actors/processes/node_local_files.hpp"

#include <filesystem>

#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(node_local_copies)

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

/// Returns the message about a committed checkpoint as it is sent to another machine, whose checkpoints are in `root`.
committed_call sent_to(const fs::path& root, const fs::path& checkpoint) {
  auto out = copy_of(checkpoint, "shard-00000.bin a\n");
  BOOST_TEST_REQUIRE(out.has_value());
  out->folder = (root / checkpoint.filename()).string();
  return std::move(*out);
}

std::string failure_of(const core::result<void>& did) { return did ? "none" : did.error().text; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_failure_says_whether_the_copy_or_the_removal_of_older_ones_failed) {
  const small_job job;
  const fs::path own = job.folder() / "own", other = job.folder() / "other";
  auto s = job.open({});
  const auto save = [&] {
    step_of(*s);
    const auto folder = s->save({.root = own, .keep_last = 1});
    BOOST_TEST_REQUIRE(folder.has_value());
    return *folder;
  };
  const auto first = save();
  BOOST_TEST(failure_of(keep_copy(sent_to(other, first), false)) == "none");
  BOOST_TEST(fs::exists(other / first.filename() / "manifest.json"));

  // The leading machine has removed the first checkpoint; on this machine an unknown folder in the checkpoint prevents
  // its removal.
  fs::create_directories(other / first.filename() / "notes");
  const auto second = save();
  step_of(*s);  // its finite loss proves the second checkpoint
  BOOST_TEST(!fs::exists(first));
  const auto removal = failure_of(keep_copy(sent_to(other, second), false));
  BOOST_TEST(removal.starts_with("cannot remove the files of older checkpoints: "), removal);
  BOOST_TEST(fs::exists(other / second.filename() / "manifest.json"));

  fs::remove(other / first.filename() / "notes");
  job.folder().write("taken", "not a folder");
  const auto copy = failure_of(keep_copy(sent_to(job.folder() / "taken", second), false));
  BOOST_TEST(copy.starts_with("cannot store a copy of its manifest: "), copy);
  BOOST_TEST(failure_of(keep_copy(sent_to(other, second), false)) == "none");
  BOOST_TEST(!fs::exists(other / first.filename()));
}

BOOST_AUTO_TEST_SUITE_END()
