// Tests files that are either written completely or left unchanged.
#include "storage/files/atomic_file.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "core/system_error.hpp"
#include "tests/file_size_limit.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(atomic_file)

using namespace troupe;
using namespace troupe::storage;
using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(a_committed_file_replaces_the_old_one) {
  const scratch_folder at;
  const auto target = at.write("f.txt", "old");
  check_ok(write_file_atomically(target, "new content"));
  BOOST_TEST(scratch_folder::read(target) == "new content");
  BOOST_TEST(files_in(at.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(nothing_stays_of_a_file_that_was_not_committed) {
  const scratch_folder at;
  const auto target = at.write("f.txt", "old");
  {
    auto file = check_ok(storage::atomic_file::create(target));
    check_ok(file->write(std::string_view("half")));
    check_ok(file->sync());
    BOOST_TEST(scratch_folder::read(target) == "old");
    BOOST_TEST(files_in(at.path()) == 2U);
    const auto moved = std::move(*file);
    BOOST_TEST(files_in(at.path()) == 2U);
  }
  BOOST_TEST(scratch_folder::read(target) == "old");
  BOOST_TEST(files_in(at.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(two_writers_of_one_name_do_not_disturb_each_other_and_the_last_commit_wins) {
  const scratch_folder at;
  auto one = storage::atomic_file::create(at / "f");
  auto two = storage::atomic_file::create(at / "f");
  check_ok(one);
  check_ok(two);
  check_ok(one->write(std::string_view("one")));
  check_ok(two->write(std::string_view("two")));
  check_ok(two->commit());
  check_ok(one->commit());
  BOOST_TEST(scratch_folder::read(at / "f") == "one");
  BOOST_TEST(files_in(at.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(the_file_obeys_the_umask) {
  const scratch_folder at;
  const auto old = ::umask(0027);
  const auto written = write_file_atomically(at / "f", "x");
  ::umask(old);
  check_ok(written);
  struct stat status {};
  BOOST_REQUIRE_EQUAL(::stat((at / "f").c_str(), &status), 0);
  BOOST_TEST((status.st_mode & 0777) == 0640U);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_named) {
  const scratch_folder at;
  check_failed(write_file_atomically(at / "missing" / "f.txt", "x"), error_kind::io, "missing/f.txt");
  at.write("plain", "");
  check_failed(write_file_atomically(at / "plain" / "f.txt", "x"), error_kind::io, "Not a directory");
  std::filesystem::create_directory(at / "taken");
  check_failed(write_file_atomically(at / "taken", "x"), error_kind::io, "taken");
  BOOST_TEST(files_in(at.path()) == 2U);
}

BOOST_AUTO_TEST_CASE(no_space_is_distinguished_from_other_failures) {
  for (const int full : {ENOSPC, EDQUOT, EFBIG})
    BOOST_TEST_CONTEXT("full " << full) BOOST_TEST((core::kind_of_write_error(full) == error_kind::no_space));
  for (const int other : {EIO, EROFS, EACCES})
    BOOST_TEST_CONTEXT("other " << other) BOOST_TEST((core::kind_of_write_error(other) == error_kind::io));
}

BOOST_AUTO_TEST_CASE(a_file_system_that_syncs_no_folders_is_no_error) {
  const scratch_folder at;
  check_ok(storage::sync_folder(at.path()));
  BOOST_TEST(syncs_folders(at.path()));
  // The file system of /proc answers EINVAL to fsync of a folder, as CIFS does; this must count as success.
  check_ok(storage::sync_folder("/proc"));
  BOOST_TEST(!syncs_folders("/proc"));
  check_failed(storage::sync_folder(at / "nothing"), error_kind::io, "nothing");
}

BOOST_AUTO_TEST_CASE(running_out_of_room_leaves_the_old_file) {
  const scratch_folder at;
  const auto target = at.write("f.txt", "old");
  core::result<void> written;
  {
    const file_size_limit full(1000);
    written = write_file_atomically(target, std::string(5000, 'x'));
  }
  check_failed(written, error_kind::no_space, "f.txt");
  BOOST_TEST(scratch_folder::read(target) == "old");
  BOOST_TEST(files_in(at.path()) == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
