// Tests folders that several threads create at once: a writer creates the folder of a save, and so do the copies that
// arrive there.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <barrier>
#include <filesystem>
#include <thread>
#include <vector>

#include "storage/files/memory_files.hpp"
#include "storage/files/working_folder.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(make_folders)

using namespace troupe::storage;

namespace {

constexpr int threads = 4;

/// Returns the number of rounds in which a thread could neither create the folder nor find it existing.
int failures_of(file_system& files, const std::filesystem::path& root, int rounds) {
  std::barrier together(threads);
  std::vector<int> failed(threads, 0);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        together.arrive_and_wait();
        if (!troupe::storage::make_folders(files, root / fmt::to_string(round) / "a" / "b")) ++failed[t];
      }
    });
  for (auto& t : all) t.join();
  int sum = 0;
  for (const int f : failed) sum += f;
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_folder_may_be_made_by_several_threads_at_once) {
  memory_files memory;
  BOOST_TEST(failures_of(memory, "/saves", 2000) == 0);
  const troupe::tests::scratch_folder disk;
  BOOST_TEST(failures_of(real_files(), disk.path(), 20) == 0);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_still_an_error) {
  memory_files memory;
  const auto file = memory.create("/taken");
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(!troupe::storage::make_folders(memory, "/taken/below").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
