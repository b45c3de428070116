// Tests two runs that use the same folder of checkpoints at the same time.
#include "checkpoint/commit/folder_lock.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "checkpoint/commit/retention.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/seccomp_filter.hpp"

BOOST_AUTO_TEST_SUITE(folder_lock)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

/// A process that holds the lock until it is killed.
class holder {
 public:
  explicit holder(const std::filesystem::path& root) {
    std::array<int, 2> pipe{};
    BOOST_REQUIRE(::pipe(pipe.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto lock = folder_lock::take(root);
      const char byte = lock ? 'y' : 'n';
      (void)!::write(pipe[1], &byte, 1);
      for (;;) ::pause();
    }
    ::close(pipe[1]);
    char byte = 0;
    BOOST_REQUIRE(::read(pipe[0], &byte, 1) == 1);
    BOOST_TEST(byte == 'y');
    ::close(pipe[0]);
  }
  ~holder() { kill(); }
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

std::string process(pid_t pid) { return fmt::format("process {}", pid); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_folder_in_use_is_refused_with_its_process_until_that_ends) {
  const scratch_folder folder;
  const auto root = folder / "runs/checkpoints";
  holder other(root);
  check_failed(checkpoint::folder_lock::take(root), error_kind::bad_input,
               root.string() + "' is in use: " + process(other.pid()) + " saves checkpoints there");
  check_failed(claim_folder(root), error_kind::bad_input, process(other.pid()));
  other.kill();
  auto mine = check_ok(checkpoint::folder_lock::take(root));
  check_failed(checkpoint::folder_lock::take(root), error_kind::bad_input, "this process");
  auto moved = std::move(*mine);
  check_failed(checkpoint::folder_lock::take(root), error_kind::bad_input, "this process");
  { const auto gone = std::move(moved); }
  check_ok(checkpoint::folder_lock::take(root));
}

BOOST_AUTO_TEST_CASE(the_lock_is_a_plain_file_of_its_owner_and_nothing_else) {
  const scratch_folder folder;
  const auto root = folder.path(), lock = root / ".lock";
  check_ok(checkpoint::folder_lock::take(root));
  struct stat status {};
  BOOST_REQUIRE(::stat(lock.c_str(), &status) == 0);
  const mode_t mask = ::umask(002);
  ::umask(mask);
  BOOST_TEST((status.st_mode & 07777) == (0666U & ~mask));
  BOOST_TEST(status.st_size == 0);  // the file does not record which process holds the lock
  std::filesystem::remove(lock);

  const auto victim = folder.write("victim", "as it was");
  std::filesystem::create_symlink(victim, lock);
  check_failed(checkpoint::folder_lock::take(root), error_kind::bad_input, "it is a link");
  BOOST_TEST(scratch_folder::read(victim) == "as it was");
  std::filesystem::remove(lock);

  BOOST_REQUIRE(::mkfifo(lock.c_str(), 0600) == 0);
  check_failed(checkpoint::folder_lock::take(root), error_kind::bad_input, "it is not a regular file");
  std::filesystem::remove(lock);

  std::filesystem::create_directory(lock);
  BOOST_TEST(!checkpoint::folder_lock::take(root));
  check_failed(checkpoint::folder_lock::take(victim / "x"), error_kind::bad_input, victim.string());
}

BOOST_AUTO_TEST_CASE(a_link_that_leads_nowhere_is_said_to_be_one) {
  const scratch_folder folder;
  std::filesystem::create_symlink("/nonexistent/disk", folder / "checkpoints");
  std::filesystem::create_symlink("/nonexistent/disk", folder / "out");
  for (const auto& root : {folder / "checkpoints", folder / "out" / "checkpoints"})
    check_failed(checkpoint::folder_lock::take(root), error_kind::bad_input,
                 "is a link to '/nonexistent/disk', which does not exist: mount or make that, or remove the link");
}

BOOST_AUTO_TEST_CASE(a_group_that_shares_a_folder_shares_its_lock) {
  const scratch_folder folder;
  const mode_t before = ::umask(002);
  check_ok(checkpoint::folder_lock::take(folder.path()));
  ::umask(before);
  struct stat status {};
  BOOST_REQUIRE(::stat((folder / ".lock").c_str(), &status) == 0);
  BOOST_TEST((status.st_mode & 07777) == 0664U);
}

BOOST_AUTO_TEST_CASE(a_lock_knows_when_its_folder_was_taken_away) {
  const scratch_folder folder;
  const auto root = folder / "checkpoints";
  const auto mine = check_ok(checkpoint::folder_lock::take(root));
  BOOST_TEST(mine->is_in_place());
  BOOST_TEST(mine->objection().empty());
  std::filesystem::remove_all(root);
  BOOST_TEST(!mine->is_in_place());
  const auto other = check_ok(checkpoint::folder_lock::take(root));
  BOOST_TEST(other->is_in_place());
  BOOST_TEST(!mine->is_in_place());
}

BOOST_AUTO_TEST_CASE(a_file_system_without_locks_is_written_to_and_the_lock_says_so) {
  for (const int number : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    BOOST_TEST_INFO_SCOPE("number " << number);
    const scratch_folder folder;
    const pid_t child = ::fork();
    if (child == 0) {
      if (!forbid(SYS_flock, number)) ::_exit(no_filter);
      const auto lock = checkpoint::folder_lock::take(folder.path());
      ::_exit(lock && lock->objection().find("does not support locks (") != std::string::npos ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WEXITSTATUS(status) == no_filter) return;
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
  }
  // Any other error refuses the run: a process that cannot lock the folder must not use it.
  const scratch_folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!forbid(SYS_flock, EPERM)) ::_exit(no_filter);
    ::_exit(checkpoint::folder_lock::take(folder.path()) ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_TEST((WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == no_filter));
}

BOOST_AUTO_TEST_CASE(leftovers_are_removed_under_the_lock_only) {
  const scratch_folder folder;
  const auto root = folder / "checkpoints";
  check_ok(save_sample(real_files(), root, 10, sample_tensors(1), 2));
  const auto unfinished = root / ("step-00000020.writing-" + to_hex(random_save_id()));
  std::filesystem::create_directory(unfinished);
  {
    holder other(root);  // the unfinished folder may belong to a save that this process is writing
    check_failed(claim_folder(root), error_kind::bad_input, "is in use");
    BOOST_TEST(std::filesystem::exists(unfinished));
  }
  const auto claimed = check_ok(claim_folder(root));
  BOOST_REQUIRE(claimed->left.size() == 1U);
  BOOST_TEST(claimed->left[0].name == unfinished.filename());
  BOOST_TEST(!std::filesystem::exists(unfinished));
  BOOST_TEST(claimed->lock.root() == root);
  check_newest(real_files(), root, 10, sample_tensors(1));
  check_ok(apply_retention(real_files(), root, {.keep_last = 1}));  // retention must not remove the lock's file
  BOOST_TEST(std::filesystem::exists(root / ".lock"));
}

BOOST_AUTO_TEST_SUITE_END()
