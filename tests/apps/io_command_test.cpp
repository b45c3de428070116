// Tests `troupe io ...`: the choice of settings and the output for invented rates, and the command as a user sees it.
#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/machine/io_report.hpp"
#include "apps/machine/io_sweep.hpp"
#include "tests/apps/process.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(io_command)

using namespace troupe;
using namespace troupe::tests;
using nlohmann::json;
using storage::io_kind;

namespace {

storage::throughput_setting setting(uint64_t block_bytes, unsigned depth, unsigned threads) {
  storage::throughput_setting s;
  s.block_bytes = block_bytes;
  s.queue_depth = depth;
  s.threads = threads;
  return s;
}

/// Returns a report with rates in GB/s, in which the first point has the best read rate and the third the best write
/// rate.
apps::io_report made_up() {
  apps::io_report r;
  r.folder = "/disk";
  r.file_system = "ext4";
  r.bytes = 1 << 20;
  r.mode = "direct";
  r.engine = "io_uring";
  r.remarks = {"something was wanted"};
  r.points = {{setting(65536, 8, 4), {4e9, 3e9, 5e9}, {1e9, 1e9, 1e9}},
              {setting(65536, 4, 1), {3.9e9, 3.9e9, 3.9e9}, {2e9, 2e9, 2e9}},
              {setting(131072, 8, 1), {2e9, 2e9, 2e9}, {4e9, 4e9, 4e9}},
              {setting(131072, 4, 1), {1.95e9, 1.95e9, 1.95e9}, {3.9e9, 3.9e9, 3.9e9}}};
  return r;
}

finished troupe_io(const std::vector<std::string>& arguments, const scratch_folder& folder) {
  std::vector<std::string> command{troupe::places::troupe_binary, "io"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(command, folder.path());
}

const std::vector<std::string> little{"--size",  "1M", "--block-size",  "64K", "--queue-depth", "2,4",
                                      "--loops", "1",  "--final-loops", "0"};

std::vector<std::string> with(std::vector<std::string> first, const std::vector<std::string>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_best_is_the_highest_median_of_its_direction) {
  const auto r = made_up();
  BOOST_TEST(apps::median({}) == 0);
  BOOST_TEST(apps::median({3, 1, 2}) == 2);
  BOOST_TEST(apps::median({4, 1}) == 4);
  BOOST_TEST(apps::best(r.points, io_kind::read) == &r.points[0]);
  BOOST_TEST(apps::best(r.points, io_kind::write) == &r.points[2]);
  BOOST_TEST(apps::best({}, io_kind::read) == nullptr);
}

BOOST_AUTO_TEST_CASE(advised_is_the_frugal_among_the_near_equal) {
  auto r = made_up();
  // The sums of the rates are 5, 5.9, 6 and 5.85. The first is too far below the best; the others use one thread each,
  // and of these the second needs the least memory.
  BOOST_TEST(apps::advised(r.points) == &r.points[1]);
  r.points[1].write = {1e9};
  BOOST_TEST(apps::advised(r.points) == &r.points[3]);
  r.points[3].write = {1e9};
  BOOST_TEST(apps::advised(r.points) == &r.points[2]);
  BOOST_TEST(apps::advised({}) == nullptr);
}

BOOST_AUTO_TEST_CASE(block_sizes_that_the_section_refuses_are_not_advised) {
  auto r = made_up();
  for (auto& p : r.points) p.setting.block_bytes += 512;
  BOOST_TEST(apps::advised(r.points) == nullptr);
  BOOST_TEST(!json::parse(apps::io_json(r)).contains("aio"));
  const auto text = apps::io_text(r, apps::bar_style::ascii);
  BOOST_TEST(has(text, "no setting is one for the topology: aio.block_size is a multiple of 4096\n"), text);
  BOOST_TEST(!has(text, "aio:"), text);
  r.points[3].setting.block_bytes -= 512;
  BOOST_TEST(apps::advised(r.points) == &r.points[3]);
}

BOOST_AUTO_TEST_CASE(one_lucky_pass_beside_many_wins_nothing) {
  auto r = made_up();
  r.points[0].read = {9e9};
  r.points[0].write = {9e9};
  BOOST_TEST(apps::decisive(r.points).size() == 3U);
  BOOST_TEST(apps::best(r.points, io_kind::read) == &r.points[1]);
  BOOST_TEST(apps::advised(r.points) == &r.points[1]);
  BOOST_TEST(has(apps::io_text(r, apps::bar_style::ascii), "3 passes of the best 3 settings"));
}

BOOST_AUTO_TEST_CASE(the_best_get_further_passes) {
  const scratch_folder folder;
  storage::throughput_options options;
  options.folder = folder.path();
  options.bytes = 1 << 20;
  auto probe = check_ok(storage::throughput_probe::open(options));
  apps::io_arguments a;
  a.bytes = options.bytes;
  a.block_bytes = {4096, 8192, 16384, 32768};
  a.queue_depths = {1, 2, 3, 4};
  a.threads = {1};
  a.single_submit = {false};
  a.overlap_events = {true};
  a.loops = 1;
  a.final_loops = 2;
  const auto settings = check_ok(apps::settings_of(a));
  size_t said = 0, announced = 0;
  const auto points = apps::sweep(*probe, *settings, a, [&](size_t pass, size_t of) {
    BOOST_TEST(pass == said++);
    announced = of;
  });
  BOOST_REQUIRE(points.has_value());
  BOOST_TEST(points->size() == 16U);
  BOOST_TEST(said == announced);
  BOOST_TEST(said == 2 * (16 + 2 * apps::io_finalists_max));
  BOOST_TEST(apps::decisive(*points).size() == apps::io_finalists_max);
}

BOOST_AUTO_TEST_CASE(json_has_the_best_and_the_section_under_the_names_that_are_read) {
  const auto j = json::parse(apps::io_json(made_up()));
  BOOST_TEST(j["read"]["GB/s"].get<double>() == 4.0);
  BOOST_TEST(j["read"]["block_bytes"] == 65536);
  BOOST_TEST(j["read"]["queue_depth"] == 8);
  BOOST_TEST(j["read"]["threads"] == 4);
  BOOST_TEST(j["write"]["GB/s"].get<double>() == 4.0);
  BOOST_TEST(j["write"]["block_bytes"] == 131072);
  BOOST_TEST(j["aio"] == json::parse(R"({"block_size":65536,"queue_depth":4,"intra_op_parallelism":1,
                                         "single_submit":false,"overlap_events":true})"));
  BOOST_TEST(j["settings"].size() == 4U);
  BOOST_TEST(j["settings"][0]["read_GB/s"].size() == 3U);
  BOOST_TEST(j["remarks"][0] == "something was wanted");
  auto only_read = made_up();
  for (auto& p : only_read.points) p.write.clear();
  BOOST_TEST(!json::parse(apps::io_json(only_read)).contains("write"));
}

BOOST_AUTO_TEST_CASE(text_has_table_bars_best_and_section) {
  const auto plain = apps::io_text(made_up(), apps::bar_style::ascii);
  for (const char* part :
       {"/disk (ext4): 1 MiB a pass, 3 passes each, direct I/O, io_uring\nnote: something was wanted\n",
        "  64 KiB      8        4  batch   overlap     4.00  3.00 to 5.00     1.00  1.00 to 1.00\n",
        " 4.00 ########################################\n",
        "best read: 4.00 GB/s with blocks of 64 KiB, depth 8, 4 threads",
        "best write: 4.00 GB/s with blocks of 128 KiB, depth 8, 1 thread\n",
        "\naio:\n  block_size: 65536\n  queue_depth: 4\n  intra_op_parallelism: 1\n  single_submit: false\n"
        "  overlap_events: true\n"})
    BOOST_TEST(has(plain, part), part << "\nis missing in\n" << plain);
  BOOST_TEST(
      has(apps::io_text(made_up(), apps::bar_style::blocks), " 4.00 ████████████████████████████████████████\n"));
}

BOOST_AUTO_TEST_CASE(only_the_fastest_bars_are_drawn) {
  auto r = made_up();
  for (unsigned i = 0; i < 30; ++i) r.points.push_back({setting(4096, i + 10, 1), {1e9 + i, 1e9, 1e9}, {}});
  const auto text = apps::io_text(r, apps::bar_style::ascii);
  BOOST_TEST(has(text, "read, GB/s, the fastest 12\n"));
  BOOST_TEST(has(text, "\nwrite, GB/s\n"));
}

BOOST_AUTO_TEST_CASE(sizes_are_named_in_the_largest_whole_unit) {
  BOOST_TEST(apps::binary_text(1000) == "1000 B");
  BOOST_TEST(apps::binary_text(65536) == "64 KiB");
  BOOST_TEST(apps::binary_text(3 << 20) == "3 MiB");
  BOOST_TEST(apps::binary_text(uint64_t{2048} << 30) == "2048 GiB");
}

BOOST_AUTO_TEST_CASE(a_folder_is_measured_and_left_as_it_was) {
  const scratch_folder folder;
  for (const char* command : {"bench", "tune"}) {
    BOOST_TEST_INFO_SCOPE(command);
    const auto r =
        check_exit(0, troupe_io(with({command, folder.path().string(), "--json", "--threads", "1,2"}, little), folder));
    const auto j = json::parse(r.out);
    for (const char* direction : {"read", "write"}) {
      BOOST_TEST_INFO_SCOPE(direction);
      BOOST_TEST(j[direction]["GB/s"].get<double>() > 0);
      BOOST_TEST(j[direction]["block_bytes"] == 65536);
      BOOST_TEST(j[direction]["queue_depth"].get<unsigned>() >= 2U);
    }
    BOOST_TEST(j["settings"].size() == (std::string(command) == "tune" ? 16U : 4U));
    BOOST_TEST(j["aio"]["single_submit"].is_boolean());
    BOOST_TEST(std::filesystem::is_empty(folder.path()));
  }
  const auto read = troupe_io(with({"bench", folder.path().string(), "--read"}, little), folder);
  BOOST_TEST(has(read.out, "best read: "));
  BOOST_TEST(!has(read.out, "best write: "));
  BOOST_TEST(!has(read.out, "█"));  // the output is a pipe, not a terminal, so no bars are drawn
  BOOST_TEST(read.err == "");
}

BOOST_AUTO_TEST_CASE(the_printed_section_is_a_topologys) {
  const scratch_folder folder;
  const auto measured = check_exit(0, troupe_io(with({"bench", folder.path().string()}, little), folder));
  const auto section = measured.out.substr(measured.out.rfind("\naio:\n") + 1);
  folder.write("corpus.txt", "some text, which nobody reads here");
  folder.write("job.yaml", smallest + section);
  const auto checked = run({troupe::places::troupe_binary, "config", "check", "job.yaml"}, folder.path());
  BOOST_TEST(checked.code == 0, checked.out << checked.err << section);
  const auto explained = run({troupe::places::troupe_binary, "config", "explain", "job.yaml"}, folder.path());
  BOOST_TEST(has(explained.out, "65536"), explained.out);
}

BOOST_AUTO_TEST_CASE(interrupted_it_leaves_nothing_behind) {
  const scratch_folder folder;
  for (const auto& [signal, code] :
       {std::pair(SIGINT, 130), std::pair(SIGTERM, 143), std::pair(SIGKILL, 128 + SIGKILL)}) {
    process p({troupe::places::troupe_binary, "io", "tune", folder.path().string(), "--size", "8M", "--block-size",
               "64K", "--queue-depth", "1", "--loops", "1000"},
              folder.path());
    BOOST_TEST(p.wait_until_takes(SIGINT));
    BOOST_TEST(p.wait_for_work(std::chrono::milliseconds(30)));
    p.send(signal);
    const auto r = p.end();
    BOOST_TEST(r.code == code);
    BOOST_TEST(r.out == "");
    if (signal != SIGKILL) BOOST_TEST(has(r.err, "interrupted"), r.err);
    BOOST_TEST(std::filesystem::is_empty(folder.path()));
  }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused_with_a_sentence) {
  const scratch_folder folder;
  const std::string here = folder.path().string();
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& part, int code = 2) {
    const auto r = troupe_io(with({"bench"}, arguments), folder);
    BOOST_TEST(r.code == code, part);
    BOOST_TEST(has(r.err, part), r.err);
    BOOST_TEST(r.out == "");
  };
  refused({"none"}, "none: is no folder that can be read: No such file or directory");
  refused({here, "--size", "much"}, "--size");
  refused({here, "--size", "512P"}, "bytes for the scratch file", 1);
  refused({here, "--size", "0"}, "--size");
  refused({here, "--read", "--write"}, "--read excludes --write");
  refused({here, "--engine", "magic"}, "magic");
  refused({here, "--loops", "0"}, "--loops");
  refused({here, "--queue-depth", "5000", "--size", "1G", "--block-size", "4K"},
          "a queue depth from 1 to 4096, got 5000");
  refused({here, "--size", "64K"},
          "--size: wanted a file of at least 1048576 bytes, the least that a setting has in "
          "flight, got 65536");
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(the_example_writes_tensors_and_reads_them_back) {
  const scratch_folder folder;
  const auto r = check_exit(0, run({troupe::places::tensor_files_binary, "."}, folder.path()));
  BOOST_TEST(has(r.out, "3 tensors of 1000000 elements went to ./tensors.bin and came back through "), r.out);
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
  const auto wrong = check_exit(1, run({troupe::places::tensor_files_binary, "nowhere"}, folder.path()));
  BOOST_TEST(has(wrong.err, "cannot create 'nowhere/tensors.bin': No such file or directory"), wrong.err);
}

BOOST_AUTO_TEST_CASE(a_sweep_without_end_is_refused) {
  apps::io_arguments a;
  a.block_bytes.assign(40, 4096);
  a.queue_depths.assign(40, 1);
  a.threads = {1};
  a.single_submit = {false};
  a.overlap_events = {true};
  check_failed(apps::settings_of(a), "at most 1024 settings in one sweep, got 1600");
}

BOOST_AUTO_TEST_CASE(registration_is_no_matter_of_threads_which_is_refused_by_name) {
  const scratch_folder folder;
  for (const char* command : {"bench", "tune"}) {
    BOOST_TEST_INFO_SCOPE(command);
    const auto refused =
        check_exit(2, troupe_io(with({command, ".", "--unregistered", "--engine", "threads"}, little), folder));
    BOOST_TEST(has(refused.err, "--unregistered would do nothing here: it is for io_uring"), refused.err);
  }
  BOOST_TEST(troupe_io(with({"bench", ".", "--unregistered"}, little), folder).code == 0);
}

BOOST_AUTO_TEST_SUITE_END()
