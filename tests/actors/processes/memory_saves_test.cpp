// Tests checkpoints that are kept in memory: a process that received the files kept by the supervisor can read the
// checkpoint, and all processes rename the files in the same way.
#include "actors/processes/memory_saves.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/actors/saving/save_rig.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(memory_saves)

using namespace troupe;
using namespace troupe::actors;
using troupe::tests::check_ok;

namespace {

/// The supervisor's end of the link to a process, with the files and saves received there.
struct listener {
  std::pair<cluster::shared_descriptor, cluster::shared_descriptor> ends = *cluster::make_pair();
  cluster::socket_link supervisor{ends.first};
  std::unique_ptr<cluster::process> process =
      std::make_unique<cluster::process>(ends.second, cluster::process_setup{0, 5'000'000'000, "1", "job"});
  std::map<std::string, cluster::file_in_memory> files;
  std::vector<cluster::kept_save> saves;

  void hear_saves(size_t count) {
    while (saves.size() < count) {
      auto came = check_ok(supervisor.receive());
      for (auto& p : *came) {
        if (const auto* f = std::get_if<cluster::kept_file>(&p.what)) files[f->path] = {f->bytes, p.with.front()};
        if (const auto* s = std::get_if<cluster::kept_save>(&p.what)) saves.push_back(*s);
      }
    }
  }
  /// Renames the files of a save as the supervisor does.
  void rename(const cluster::kept_save& s) {
    std::map<std::string, cluster::file_in_memory> moved;
    for (auto& [path, file] : files) {
      const bool is_of = path.starts_with(s.written + "/");
      moved[is_of ? s.folder + path.substr(s.written.size()) : path] = file;
    }
    files = std::move(moved);
  }
};

save_report save_to(memory_saves& saves, save_rig& rig, uint64_t step, std::vector<kept_name>& names) {
  rig.root = memory_saves::root();
  save_request request;
  request.keep_last = saves_in_memory_kept;
  auto job = check_ok(rig.begin(saves.files(), step, request));
  check_ok((*job)->prove());
  const auto working = (*job)->invitation().working;
  rig.run(*job);
  auto report = (*job)->wait();
  BOOST_REQUIRE_MESSAGE(!report.failure, report.failure->text);
  auto told = check_ok(saves.committed(report.folder, working, step));
  names = *told;
  return report;
}

}  // namespace

BOOST_AUTO_TEST_CASE(another_process_reads_a_save_from_the_files_that_were_kept) {
  save_rig rig(with_staging(2, 1, 100'000), some_table(true));
  listener first, second;
  actors::memory_saves saves(*first.process);
  std::vector<kept_name> names;
  const auto report = save_to(saves, rig, 3, names);
  first.hear_saves(1);
  BOOST_TEST(first.saves.front().folder == report.folder.string());
  BOOST_TEST(first.saves.front().step == 3U);
  for (const auto& [path, file] : first.files)  // every file must be in the folder of the save
    BOOST_TEST(std::filesystem::path(path).parent_path() == first.saves.front().written);
  first.rename(first.saves.front());

  actors::memory_saves others(*second.process);
  check_ok(others.open(report.folder.string(), first.files));
  rig.root = report.folder;
  rig.expect_in(others.files(), 3);
}

BOOST_AUTO_TEST_CASE(two_saves_stay_and_the_others_follow_the_names) {
  save_rig rig(with_staging(2, 1, 100'000), some_table(true));
  listener first, second;
  actors::memory_saves saves(*first.process), others(*second.process);
  for (uint64_t step = 1; step <= 4; ++step) {
    BOOST_TEST_INFO_SCOPE("step " << step);
    std::vector<kept_name> names;
    save_to(saves, rig, step, names);
    BOOST_TEST(names.size() == (step > saves_in_memory_kept ? 2U : 1U));
    // The part of a process that has joined is stored under the name that the leading process uses until the commit.
    BOOST_REQUIRE(others.prepare(names.front().from).has_value());
    BOOST_REQUIRE(others.files().create(std::filesystem::path(names.front().from) / "shard").has_value());
    BOOST_REQUIRE(others.follow(names).has_value());
    BOOST_TEST(*others.files().exists(std::filesystem::path(names.front().to) / "shard"));
  }
  const auto left = check_ok(others.files().list(actors::memory_saves::root()));
  BOOST_TEST(left->size() == saves_in_memory_kept);
}

BOOST_AUTO_TEST_CASE(the_same_step_once_more_takes_the_place_of_the_first) {
  save_rig rig(with_staging(2, 1, 100'000), some_table(true));
  listener first, second;
  actors::memory_saves saves(*first.process), others(*second.process);
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    std::vector<kept_name> names;
    save_to(saves, rig, 5, names);
    BOOST_TEST(names.size() == 1U);
    BOOST_REQUIRE(others.prepare(names.front().from).has_value());
    BOOST_REQUIRE(others.files().create(std::filesystem::path(names.front().from) / "shard").has_value());
    BOOST_REQUIRE(others.follow(names).has_value());
  }
  BOOST_TEST(others.files().list(actors::memory_saves::root())->size() == 1U);
  rig.expect_in(saves.files(), 5);
}

BOOST_AUTO_TEST_SUITE_END()
