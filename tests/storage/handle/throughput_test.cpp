// Tests storage/handle/throughput.hpp on the file system of the tests; the measured speed is irrelevant.
#include "storage/handle/throughput.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "tests/scratch_folder.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(throughput)

using namespace troupe;
using storage::io_kind;
using storage::throughput_probe;
using storage::throughput_setting;

namespace {

constexpr uint64_t mebi = uint64_t{1} << 20;

throughput_probe must(core::result<throughput_probe> opened) {
  BOOST_REQUIRE_MESSAGE(opened, opened.error().text);
  return std::move(*opened);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_setting_moves_the_whole_file_both_ways) {
  const tests::scratch_folder folder;
  auto probe = must(throughput_probe::open({.folder = folder.path(), .bytes = mebi + 5}));
  BOOST_TEST(probe.bytes() == mebi + 65536);
  for (const auto engine : {storage::queue_engine::best, storage::queue_engine::threads})
    for (const unsigned threads : {1, 3})
      for (const bool single : {false, true})
        for (const bool overlap : {false, true})
          for (const bool registered : {false, true})
            for (const auto kind : {io_kind::write, io_kind::read}) {
              BOOST_TEST_INFO_SCOPE("overlap " << overlap);
              BOOST_TEST_INFO_SCOPE("registered " << registered);
              BOOST_TEST_INFO_SCOPE("single " << single);
              BOOST_TEST_INFO_SCOPE("threads " << threads);
              const auto rate = probe.measure(kind, {65536, 4, threads, single, overlap, registered, engine});
              BOOST_REQUIRE_MESSAGE(rate, rate.error().text);
              BOOST_TEST(*rate > 0);
              if (engine == storage::queue_engine::threads) BOOST_TEST(probe.engine() == "threads");
            }
}

BOOST_AUTO_TEST_CASE(no_file_is_visible_in_the_folder) {
  const tests::scratch_folder folder;
  auto probe = must(throughput_probe::open({.folder = folder.path(), .bytes = mebi}));
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
  BOOST_TEST(probe.measure(io_kind::read, {65536, 2}).has_value());
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(unusable_folders_and_sizes_are_refused) {
  const tests::scratch_folder folder;
  const auto kind_of = [](const storage::throughput_options& o) {
    const auto opened = throughput_probe::open(o);
    BOOST_REQUIRE(!opened.has_value());
    return opened.error();
  };
  BOOST_TEST((kind_of({.folder = folder / "none"}).kind == error_kind::bad_input));
  BOOST_TEST((kind_of({.folder = "/dev/null"}).kind == error_kind::bad_input));
  BOOST_TEST((kind_of({.folder = folder.path(), .bytes = 0}).kind == error_kind::bad_input));
  const auto full = kind_of({.folder = folder.path(), .bytes = uint64_t{1} << 60});
  BOOST_TEST((full.kind == error_kind::no_space));
  BOOST_TEST(full.text.find("wanted 1152921504606846976 bytes") != std::string::npos, full.text);
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(settings_out_of_range_are_refused) {
  const tests::scratch_folder folder;
  auto probe = must(throughput_probe::open({.folder = folder.path(), .bytes = mebi}));
  const auto kind_of = [&](const throughput_setting& s) {
    const auto rate = probe.measure(io_kind::read, s);
    BOOST_REQUIRE(!rate.has_value());
    return rate.error().kind;
  };
  BOOST_TEST((kind_of({.block_bytes = 0}) == error_kind::bad_input));
  BOOST_TEST((kind_of({.block_bytes = 65536, .queue_depth = 0}) == error_kind::bad_input));
  BOOST_TEST((kind_of({.block_bytes = 65536, .queue_depth = 1, .threads = 65}) == error_kind::bad_input));
  BOOST_TEST((kind_of({.block_bytes = mebi, .queue_depth = 2}) == error_kind::limit));
  if (probe.mode() == storage::file_mode::direct)
    BOOST_TEST((kind_of({.block_bytes = 1000, .queue_depth = 1}) == error_kind::bad_input));
}

BOOST_AUTO_TEST_CASE(a_request_to_stop_is_obeyed) {
  const tests::scratch_folder folder;
  bool wanted = false;
  auto probe = must(throughput_probe::open({.folder = folder.path(), .bytes = mebi, .stop = [&] { return wanted; }}));
  wanted = true;
  const auto rate = probe.measure(io_kind::read, {65536, 1});
  BOOST_REQUIRE(!rate.has_value());
  BOOST_TEST((rate.error().kind == error_kind::stopped));
}

BOOST_AUTO_TEST_CASE(transfers_go_through_the_page_cache_when_asked) {
  const tests::scratch_folder folder;
  auto probe = must(throughput_probe::open({.folder = folder.path(), .bytes = mebi, .buffered = true}));
  BOOST_TEST((probe.mode() == storage::file_mode::buffered));
  BOOST_TEST(probe.measure(io_kind::write, {.block_bytes = 1000, .queue_depth = 3}).has_value());
  BOOST_TEST(probe.measure(io_kind::read, {.block_bytes = 1000, .queue_depth = 3}).has_value());
}

BOOST_AUTO_TEST_CASE(a_file_system_in_memory_is_named) {
  if (!std::filesystem::is_directory("/dev/shm")) {
    troupe::tests::say_skipped("speed of a file system in memory", "there is no /dev/shm here");
    return;
  }
  const tests::scratch_folder folder("/dev/shm");
  const auto probe = must(throughput_probe::open({.folder = folder.path(), .bytes = mebi}));
  BOOST_REQUIRE(!probe.remarks().empty());
  BOOST_TEST(probe.remarks()[0].find("is in memory") != std::string::npos, probe.remarks()[0]);
}

BOOST_AUTO_TEST_SUITE_END()
