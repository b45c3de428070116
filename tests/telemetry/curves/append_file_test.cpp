// Tests a file to which records are appended: on full disks, in missing folders, and under names that already exist.
#include "telemetry/curves/append_file.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(append_file)

using namespace troupe;
using namespace troupe::telemetry;
using tests::scratch_folder;
using troupe::tests::check_error;
using troupe::tests::check_failed;
using troupe::tests::check_ok;

namespace {

// Limits the size of this process's files. Writes then fail with EFBIG, instead of ENOSPC as on a full disk.
class full_disk {
 public:
  explicit full_disk(rlim_t bytes) {
    before_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit low{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &low);
  }
  ~full_disk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    ::signal(SIGXFSZ, before_);
  }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;

 private:
  rlimit limit_{};
  void (*before_)(int) = nullptr;
};

}  // namespace

BOOST_AUTO_TEST_CASE(records_follow_each_other) {
  const scratch_folder f;
  auto file = check_ok(telemetry::append_file::create(f / "a.csv"));
  file->add("one\n");
  BOOST_TEST(scratch_folder::read(f / "a.csv").empty());
  file->add("two\n");
  BOOST_TEST(file->flush().has_value());
  file->add("three\n");
  BOOST_TEST(file->flush().has_value());
  BOOST_TEST(scratch_folder::read(f / "a.csv") == "one\ntwo\nthree\n");
}

BOOST_AUTO_TEST_CASE(records_in_a_file_that_was_removed_are_dropped_and_said_to_be) {
  const scratch_folder f;
  auto file = check_ok(telemetry::append_file::create(f / "a.csv"));
  file->add("one\n");
  BOOST_TEST(file->flush().has_value());
  BOOST_TEST(!file->is_removed());
  std::filesystem::remove(f / "a.csv");
  file->add("two\n");
  check_error(file->flush(), "cannot write " + (f / "a.csv").string() + ": the file was removed during the run");
  BOOST_TEST(file->is_removed());
  BOOST_TEST(file->num_dropped() == 1U);
  BOOST_TEST(file->flush().has_value());  // there are no records left to write
}

BOOST_AUTO_TEST_CASE(an_earlier_file_is_set_aside) {
  const scratch_folder f;
  f.write("a.csv", "of yesterday");
  check_ok(telemetry::append_file::create(f / "a.csv"));
  BOOST_TEST(scratch_folder::read(f / "a.csv").empty());
  BOOST_TEST(scratch_folder::read(f / "a.csv.previous") == "of yesterday");
}

BOOST_AUTO_TEST_CASE(each_earlier_file_keeps_a_name_of_its_own) {
  const scratch_folder f;
  for (const char* day : {"first", "second", "third"}) {
    f.write("a.csv", day);
    check_ok(telemetry::append_file::create(f / "a.csv"));
  }
  BOOST_TEST(scratch_folder::read(f / "a.csv.previous") == "first");
  BOOST_TEST(scratch_folder::read(f / "a.csv.previous.2") == "second");
  BOOST_TEST(scratch_folder::read(f / "a.csv.previous.3") == "third");
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_not_there_is_named) {
  const scratch_folder f;
  const auto file = telemetry::append_file::create(f / "none/a.csv");
  BOOST_TEST_REQUIRE(!file.has_value());
  BOOST_TEST((file.error().kind == core::error_kind::io));
  BOOST_TEST(file.error().text == "cannot create " + (f / "none/a.csv").string() + ": No such file or directory");
}

BOOST_AUTO_TEST_CASE(a_full_disk_tears_no_record_and_loses_none) {
  const scratch_folder f;
  auto file = check_ok(telemetry::append_file::create(f / "a.csv"));
  file->add("whole\n");
  BOOST_TEST(file->flush().has_value());
  {
    const full_disk disk(10);
    file->add("more than fits\n");
    check_failed(file->flush(), core::error_kind::no_space);
    BOOST_TEST(scratch_folder::read(f / "a.csv") == "whole\n");
    file->add("still waiting\n");
    BOOST_TEST(!file->flush().has_value());
  }
  BOOST_TEST(file->waiting_bytes() > 0U);
  BOOST_TEST(file->flush().has_value());
  BOOST_TEST(scratch_folder::read(f / "a.csv") == "whole\nmore than fits\nstill waiting\n");
  BOOST_TEST(file->num_dropped() == 0U);
}

BOOST_AUTO_TEST_CASE(waiting_records_have_a_limit_and_dropped_ones_are_counted) {
  const scratch_folder f;
  auto file = check_ok(telemetry::append_file::create(f / "a.csv"));
  const std::string record(waiting_bytes_limit / 4, 'x');
  for (int i = 0; i < 7; ++i) file->add(record);
  BOOST_TEST(file->waiting_bytes() == waiting_bytes_limit);
  BOOST_TEST(file->num_dropped() == 3U);
}

BOOST_AUTO_TEST_CASE(a_record_goes_through_no_link_and_waits_for_no_pipe) {
  const scratch_folder folder;
  const auto theirs = folder.write("theirs", "secret\n");
  std::filesystem::create_symlink(theirs, folder / "steps.jsonl");
  check_error(telemetry::append_file::go_on(folder / "steps.jsonl"),
              "cannot append to '" + (folder / "steps.jsonl").string() +
                  "': wanted a regular file, got a link; remove it, or name another output");
  BOOST_TEST(scratch_folder::read(theirs) == "secret\n");
  BOOST_TEST_REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  check_failed(telemetry::append_file::go_on(folder / "pipe"), "got a pipe or device");
}

BOOST_AUTO_TEST_SUITE_END()
