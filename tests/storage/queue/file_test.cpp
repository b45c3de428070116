// Tests storage/queue/file.hpp on real file systems.
#include "storage/queue/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

#include "storage/memory/huge_memory.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(file)

using namespace troupe;
using storage::file_access;
using storage::file_mode;
using troupe::tests::check_failed;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

storage::file must(core::result<storage::file> opened) {
  BOOST_REQUIRE_MESSAGE(opened, opened.error().text);
  return std::move(*opened);
}

}  // namespace

BOOST_AUTO_TEST_CASE(written_bytes_are_read_at_any_offset) {
  const tests::scratch_folder folder;
  const auto f = must(storage::file::open(folder / "a", file_access::create, file_mode::buffered));
  BOOST_TEST(f.write_at(3, bytes_of("hello")).has_value());
  BOOST_TEST(*f.size_bytes() == 8U);
  std::array<std::byte, 5> got{};
  BOOST_TEST(*f.read_at(3, got) == 5U);
  BOOST_TEST(std::memcmp(got.data(), "hello", 5) == 0);
  BOOST_TEST(f.sync().has_value());
}

BOOST_AUTO_TEST_CASE(a_read_past_the_end_counts_the_bytes_before_it) {
  const auto f = must(storage::file::in_memory("short"));
  BOOST_TEST(f.write_at(0, bytes_of("12345678")).has_value());
  std::vector<std::byte> got(100);
  BOOST_TEST(*f.read_at(6, got) == 2U);
  BOOST_TEST(*f.read_at(8, got) == 0U);
  BOOST_TEST(*f.read_at(0, {}) == 0U);
}

BOOST_AUTO_TEST_CASE(creating_empties_an_existing_file_and_creating_anew_refuses_it) {
  const tests::scratch_folder folder;
  folder.write("old", "content");
  check_failed(storage::file::open(folder / "old", file_access::create_new, file_mode::buffered), "File exists");
  BOOST_TEST(tests::scratch_folder::read(folder / "old") == "content");
  const auto f = must(storage::file::open(folder / "old", file_access::create, file_mode::buffered));
  BOOST_TEST(*f.size_bytes() == 0U);
  std::filesystem::create_symlink(folder / "elsewhere", folder / "link");
  BOOST_TEST(!storage::file::open(folder / "link", file_access::create_new, file_mode::buffered));
  BOOST_TEST(!std::filesystem::exists(folder / "elsewhere"));
}

BOOST_AUTO_TEST_CASE(errors_name_the_file_the_operation_and_the_reason) {
  const tests::scratch_folder folder;
  check_failed(storage::file::open(folder / "none", file_access::read, file_mode::buffered),
               core::error_kind::bad_input, "cannot read '" + (folder / "none").string() + "': No such file");
  BOOST_TEST(!storage::file::open(folder.path(), file_access::read, file_mode::buffered));
  folder.write("a", "abc");
  const auto f = must(storage::file::open(folder / "a", file_access::read, file_mode::buffered));
  check_failed(f.write_at(4096, bytes_of("xyz")), "a: write at 4096: wanted 3 bytes, got 0: ");
  BOOST_TEST(!f.truncate(~uint64_t{0}));
  BOOST_TEST(!f.preallocate(~uint64_t{0}));
}

BOOST_AUTO_TEST_CASE(a_regular_file_is_distinguished_from_links_pipes_and_folders_without_blocking) {
  const tests::scratch_folder folder;
  folder.write("a", "abc");
  std::filesystem::create_symlink(folder / "a", folder / "link");
  BOOST_REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  must(storage::file::open(folder / "a", file_access::read_regular, file_mode::buffered));
  for (const char* name : {"link", "pipe", ""}) {
    BOOST_TEST_INFO_SCOPE(name);
    check_failed(storage::file::open(folder / name, file_access::read_regular, file_mode::buffered),
                 core::error_kind::bad_input);
  }
}

BOOST_AUTO_TEST_CASE(a_file_is_opened_again_after_it_lost_its_name) {
  const tests::scratch_folder folder;
  folder.write("a", "abc");
  const auto f = must(storage::file::open(folder / "a", file_access::read, file_mode::buffered));
  std::filesystem::remove(folder / "a");
  const auto again = must(f.reopened(file_access::read_write, file_mode::buffered));
  BOOST_TEST((again.path() == folder / "a"));
  BOOST_TEST(again.identity() != f.identity());
  std::array<std::byte, 3> got{};
  BOOST_TEST(*again.read_at(0, got) == 3U);
  BOOST_TEST(std::memcmp(got.data(), "abc", 3) == 0);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_an_error_of_its_own) {
  // /dev/full is a device on which every write fails with ENOSPC.
  const auto f = must(storage::file::open("/dev/full", file_access::read_write, file_mode::buffered));
  check_failed(f.write_at(0, bytes_of("abc")), core::error_kind::no_space);
}

BOOST_AUTO_TEST_CASE(room_is_reserved_and_given_back) {
  const tests::scratch_folder folder;
  const auto f = must(storage::file::open(folder / "a", file_access::create, file_mode::buffered));
  BOOST_TEST(f.preallocate(100'000).has_value());
  BOOST_TEST(*f.size_bytes() == 100'000U);
  BOOST_TEST(f.preallocate(10).has_value());
  BOOST_TEST(*f.size_bytes() == 100'000U);
  BOOST_TEST(f.truncate(7).has_value());
  BOOST_TEST(*f.size_bytes() == 7U);
  BOOST_TEST(*f.preallocate(0) == true);
}

BOOST_AUTO_TEST_CASE(a_copy_keeps_the_file_open_and_identities_are_never_used_again) {
  const tests::scratch_folder folder;
  folder.write("a", "abc");
  auto first = must(storage::file::open(folder / "a", file_access::read, file_mode::buffered));
  const auto copy = first;
  const uint64_t identity = first.identity();
  const int descriptor = first.descriptor();
  first = {};
  BOOST_TEST(::fcntl(descriptor, F_GETFD) >= 0);
  BOOST_TEST(*copy.size_bytes() == 3U);
  const auto other = must(storage::file::open(folder / "a", file_access::read, file_mode::buffered));
  BOOST_TEST(other.identity() != identity);
}

BOOST_AUTO_TEST_CASE(a_file_system_without_direct_io_says_so_and_the_best_mode_is_buffered) {
  // procfs, which every Linux has, does not support direct I/O.
  check_failed(storage::file::open("/proc/self/status", file_access::read, file_mode::direct),
               core::error_kind::mismatch, "does not support direct I/O");
  const auto f = must(storage::file::open_best("/proc/self/status", file_access::read));
  BOOST_TEST(storage::describe(f.mode()) == "buffered");
  std::vector<std::byte> got(4);
  BOOST_TEST(*f.read_at(0, got) == 4U);
}

BOOST_AUTO_TEST_CASE(only_a_missing_direct_mode_leads_to_the_buffered_one) {
  const tests::scratch_folder folder;
  check_failed(storage::file::open_best(folder / "none", file_access::read), core::error_kind::bad_input);
}

BOOST_AUTO_TEST_CASE(direct_files_state_their_alignment_and_hold_the_written_bytes) {
  const tests::scratch_folder folder;
  const auto f = must(storage::file::open_best(folder / "a", file_access::create));
  BOOST_TEST_MESSAGE(folder.path() << ": " << storage::describe(f.mode()) << ", " << f.alignment().offset_bytes
                                   << " bytes");
  BOOST_TEST(f.alignment().offset_bytes <= storage::file::alignment_bytes_max);
  if (f.mode() == file_mode::direct) BOOST_TEST(4096 % f.alignment().offset_bytes == 0U);
  auto memory = *storage::huge_memory::allocate(8192);
  std::memset(memory.data(), 'x', 8192);
  BOOST_TEST(f.write_at(4096, {memory.data(), 4096}).has_value());
  BOOST_TEST(f.truncate(4096 + 100).has_value());
  std::memset(memory.data(), 0, 8192);
  BOOST_TEST(*f.read_at(0, {memory.data(), 8192}) == 4196U);
  BOOST_TEST((memory.data()[4096] == std::byte{'x'}));
  BOOST_TEST((memory.data()[4095] == std::byte{0}));
}

BOOST_AUTO_TEST_SUITE_END()
