// Tests storage/swap/swap_space.hpp: its folder, the folder's lock, its disk space, and files left by killed runs.
#include "storage/swap/swap_space.hpp"

#include <fmt/format.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/scratch_folder.hpp"
#include "tests/storage/queues.hpp"

BOOST_AUTO_TEST_SUITE(swap_space)

using namespace troupe;
using namespace troupe::storage;
using troupe::tests::check_error;
namespace fs = std::filesystem;

namespace {

swap_options in(const fs::path& folder) {
  swap_options out;
  out.folder = folder;
  return out;
}

std::shared_ptr<storage::swap_space> opened(const fs::path& folder) {
  auto space = storage::swap_space::open(in(folder));
  BOOST_REQUIRE_MESSAGE(space, space.error().text);
  return std::move(*space);
}

mode_t permissions(const fs::path& path) {
  struct stat about {};
  BOOST_REQUIRE(::lstat(path.c_str(), &about) == 0);
  return about.st_mode & 07777;
}

core::error refusal(const swap_options& options) {
  const auto space = storage::swap_space::open(options);
  BOOST_REQUIRE(!space);
  return space.error();
}

bool says(const core::error& error, const std::string& what) { return error.text.find(what) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(the_folder_and_its_files_are_private_and_gone_at_the_end) {
  const tests::scratch_folder scratch;
  const auto folder = scratch / "nvme";
  {
    const auto space = opened(folder);
    BOOST_TEST(space->path() == folder / "troupe-swap");
    const auto file = space->create("rank0", 10'000);
    BOOST_REQUIRE_MESSAGE(file, file.error().text);
    BOOST_TEST((*file)->bytes() == 12'288U);
    BOOST_TEST((*file)->digest_bytes() == 24U);
    BOOST_TEST(permissions(space->path()) == 0700U);
    BOOST_TEST(permissions(space->path() / "rank0.swap") == 0600U);
    BOOST_TEST(permissions(space->path() / "lock") == 0600U);
    BOOST_TEST(fs::file_size(space->path() / "rank0.swap") == 12'288U);
    std::vector<std::byte> got(12'288, std::byte{1});
    BOOST_REQUIRE((*file)->read(0, got));
    BOOST_TEST((got == std::vector<std::byte>(12'288)));
  }
  BOOST_TEST(!fs::exists(folder));
}

BOOST_AUTO_TEST_CASE(an_existing_folder_stays) {
  const tests::scratch_folder scratch;
  scratch.write("mine", "x");
  opened(scratch.path());
  BOOST_TEST(fs::exists(scratch.path()));
  BOOST_TEST(!fs::exists(scratch / "troupe-swap"));
}

BOOST_AUTO_TEST_CASE(too_little_room_is_one_error_with_all_the_numbers) {
  const tests::scratch_folder scratch;
  auto options = in(scratch / "nvme");
  options.wanted = {{"moments", uint64_t{1} << 60}, {"master weights", 4096}};
  const auto error = refusal(options);
  BOOST_TEST((error.kind == core::error_kind::no_space));
  BOOST_TEST(says(error, "wanted 1152921504606851072 bytes (moments 1152921504606846976, master weights 4096), got "),
             error.text);
  BOOST_TEST(says(error, " bytes free"), error.text);
  BOOST_TEST(!fs::exists(scratch / "nvme"));
  options.wanted = {{"moments", ~uint64_t{0}}, {"master weights", 4096}};
  BOOST_TEST((refusal(options).kind == core::error_kind::no_space));
  options.wanted = {{"moments", 4096}};
  BOOST_TEST(storage::swap_space::open(options).has_value());
}

BOOST_AUTO_TEST_CASE(a_second_run_is_refused_with_the_process_that_holds_the_lock) {
  const tests::scratch_folder scratch;
  const auto first = opened(scratch.path());
  const auto error = refusal(in(scratch.path()));
  BOOST_TEST((error.kind == core::error_kind::bad_input));
  BOOST_TEST(says(error, "is in use: this process holds the lock on '" + (scratch / "troupe-swap/lock").string() + "'"),
             error.text);
  // The error names the process whose id is in the lock file.
  std::ofstream(scratch / "troupe-swap/lock") << "4711\n";
  BOOST_TEST(says(refusal(in(scratch.path())), "is in use: process 4711 holds"));
  std::ofstream(scratch / "troupe-swap/lock") << "nonsense\n";
  BOOST_TEST(says(refusal(in(scratch.path())), "is in use: another process holds"));
  BOOST_TEST(fs::exists(scratch / "troupe-swap/lock"));
}

BOOST_AUTO_TEST_CASE(leftovers_of_a_killed_run_are_removed_by_the_next) {
  const tests::scratch_folder scratch;
  const pid_t child = ::fork();
  if (child == 0) {
    auto space = storage::swap_space::open(in(scratch / "nvme"));
    const bool made = space && (*space)->create("a", 8192) && (*space)->create("b", 4096);
    ::_exit(made ? 0 : 1);  // ends the process without running destructors, like a kill
  }
  int status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_REQUIRE(status == 0);
  BOOST_REQUIRE(fs::exists(scratch / "nvme/troupe-swap/a.swap"));
  scratch.write("nvme/troupe-swap/notes.txt", "somebody's");
  {
    const auto space = opened(scratch / "nvme");
    BOOST_TEST(!fs::exists(scratch / "nvme/troupe-swap/a.swap"));
    const auto remarks = space->remarks();
    BOOST_REQUIRE(remarks.size() == 2U);
    BOOST_TEST(remarks[0].find("removed 2 files, 12288 bytes") != std::string::npos, remarks[0]);
    BOOST_TEST(remarks[1].find("left 1 entries that are not Troupe's") != std::string::npos, remarks[1]);
    BOOST_TEST(space->create("a", 4096).has_value());
  }
  BOOST_TEST(fs::exists(scratch / "nvme/troupe-swap/notes.txt"));
  BOOST_TEST(!fs::exists(scratch / "nvme/troupe-swap/a.swap"));
  BOOST_TEST(!fs::exists(scratch / "nvme/troupe-swap/lock"));
}

BOOST_AUTO_TEST_CASE(links_in_place_of_our_files_are_refused_and_not_followed) {
  const tests::scratch_folder scratch;
  fs::create_directories(scratch / "victim");
  scratch.write("victim/precious", "keep");
  fs::create_symlink(scratch / "victim", scratch / "troupe-swap");
  BOOST_TEST(says(refusal(in(scratch.path())), "troupe-swap' is a symbolic link"));
  fs::remove(scratch / "troupe-swap");
  fs::create_directory(scratch / "troupe-swap");
  fs::create_symlink(scratch / "victim/precious", scratch / "troupe-swap/lock");
  BOOST_TEST(says(refusal(in(scratch.path())), "troupe-swap/lock' is a symbolic link"));
  fs::remove(scratch / "troupe-swap/lock");
  fs::create_symlink(scratch / "victim/precious", scratch / "troupe-swap/a.swap");
  BOOST_TEST(says(refusal(in(scratch.path())), "troupe-swap/a.swap' is a symbolic link"));
  fs::remove(scratch / "troupe-swap/a.swap");
  {
    const auto space = opened(scratch.path());
    fs::create_symlink(scratch / "victim/precious", scratch / "troupe-swap/a.swap");
    BOOST_TEST(!space->create("a", 4096));
    fs::remove(scratch / "troupe-swap/a.swap");
  }
  BOOST_TEST(tests::scratch_folder::read(scratch / "victim/precious") == "keep");
  // The folder that the user configures may be a symbolic link, because administrators name disks so.
  fs::create_symlink(scratch / "victim", scratch / "disk");
  BOOST_TEST(opened(scratch / "disk")->create("a", 4096).has_value());
  BOOST_TEST(fs::exists(scratch / "disk"));
}

BOOST_AUTO_TEST_CASE(unusable_folders_are_refused_with_their_names) {
  const tests::scratch_folder scratch;
  scratch.write("file", "x");
  const auto bad = [&](const fs::path& path) {
    const auto error = refusal(in(path));
    BOOST_TEST((error.kind == core::error_kind::bad_input), error.text);
    BOOST_TEST((path.empty() || says(error, path.string())), error.text);
    return error;
  };
  BOOST_TEST(says(bad(scratch / "no/such"), "No such file or directory"));
  BOOST_TEST(says(bad(scratch / "file"), "is not a folder"));
  bad(scratch / "file/below");
  bad({});
  scratch.write("troupe-swap", "a file in its place");
  bad(scratch.path());
  // The test runs this call as another user, because root may write everywhere.
  const tests::scratch_folder closed;
  fs::permissions(closed.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const int before = ::setfsuid(::geteuid() == 0 ? 65534 : ::geteuid());
  const auto refused = storage::swap_space::open(in(closed.path()));
  ::setfsuid(static_cast<uid_t>(before));
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == core::error_kind::bad_input));
  BOOST_TEST(says(refused.error(), "Permission denied"), refused.error().text);
}

BOOST_AUTO_TEST_CASE(invalid_names_and_sizes_are_refused) {
  const tests::scratch_folder scratch;
  for (const auto& space : {opened(scratch.path()), storage::swap_space::in_memory()}) {
    for (const auto& name : {std::string(), std::string(".."), std::string("a/b"), std::string(500, 'x')})
      BOOST_TEST_CONTEXT(name) BOOST_TEST(!space->create(name, 4096));
    BOOST_TEST(!space->create("a", 0));
    BOOST_TEST(!space->create("a", ~uint64_t{0}));
    BOOST_TEST(space->create("a", 1).has_value());
    check_error(space->create("a", 1), "swap file 'a' of 1 bytes: the name is taken");
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_finds_no_room_leaves_nothing) {
  const tests::scratch_folder scratch("/dev/shm");
  const auto space = opened(scratch.path());
  const auto file = space->create("large", uint64_t{1} << 50);
  BOOST_REQUIRE(!file);
  BOOST_TEST((file.error().kind == core::error_kind::no_space), file.error().text);
  BOOST_TEST(says(file.error(), "bytes are free"), file.error().text);
  BOOST_TEST(!fs::exists(space->path() / "large.swap"));
  BOOST_TEST(space->create("large", 4096).has_value());
}

BOOST_AUTO_TEST_CASE(the_limit_on_files_refuses_one_that_would_end_the_process) {
  const tests::scratch_folder scratch;
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{8192, before.rlim_max};
  const auto space = opened(scratch.path());
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto file = space->create("a", 8193);
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  BOOST_REQUIRE(!file);
  BOOST_TEST((file.error().kind == core::error_kind::limit));
  BOOST_TEST(says(file.error(), "RLIMIT_FSIZE is 8192"), file.error().text);
}

BOOST_AUTO_TEST_CASE(file_systems_without_direct_io_are_used_with_one_remark) {
  const tests::scratch_folder scratch("/dev/shm");
  const auto space = opened(scratch.path());
  const auto a = *space->create("a", 4096), b = *space->create("b", 4096);
  const auto direct = file::open(scratch / "probe", file_access::create, file_mode::direct);
  BOOST_TEST(space->remarks().size() == (direct ? 0U : 1U));
  BOOST_TEST((a->handle().mode() == (direct ? file_mode::direct : file_mode::buffered)));
  if (!direct) BOOST_TEST(space->remarks()[0].find("no direct I/O; using the page cache") != std::string::npos);
  const std::vector<std::byte> wrote(4096, std::byte{5});
  std::vector<std::byte> got(4096);
  BOOST_TEST(b->write(0, wrote).has_value());
  BOOST_TEST(b->read(0, got).has_value());
  BOOST_TEST((got == wrote));
}

BOOST_AUTO_TEST_CASE(files_are_usable_until_they_are_released) {
  const tests::scratch_folder scratch;
  auto space = opened(scratch.path());
  const auto file = *space->create("a", 8192);
  space.reset();
  BOOST_TEST(!fs::exists(scratch / "troupe-swap"));
  const std::vector<std::byte> wrote(8192, std::byte{5});
  std::vector<std::byte> got(8192);
  BOOST_TEST(file->write(0, wrote).has_value());
  BOOST_TEST(file->read(0, got).has_value());
  BOOST_TEST((got == wrote));
  opened(scratch.path());  // another space can use the folder now
}

BOOST_AUTO_TEST_CASE(runs_that_follow_each_other_closely_take_turns) {
  // A run that ends removes the folder while other threads try to create it: each attempt must succeed alone or be
  // refused.
  const tests::scratch_folder scratch("/dev/shm");
  std::atomic<int> inside{0};
  std::atomic<unsigned> had{0};
  std::vector<std::thread> threads;
  std::atomic<bool> wrong{false};
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 200; ++round) {
        const auto space = storage::swap_space::open(in(scratch / "nvme"));
        if (!space) {
          wrong = wrong || space.error().text.find("is in use") == std::string::npos;
          continue;
        }
        wrong = wrong || ++inside != 1;
        wrong = wrong || !(*space)->create(fmt::format("file{}", t), 4096);
        ++had;
        --inside;
      }
    });
  for (auto& t : threads) t.join();
  BOOST_TEST(!wrong);
  BOOST_TEST(had > 0U);
  BOOST_TEST(!fs::exists(scratch / "nvme/troupe-swap"));
}

BOOST_AUTO_TEST_SUITE_END()
