// Tests storage/memory/locked_memory.hpp: a failure to lock memory is reported as a remark and is no error.
#include "storage/memory/locked_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>

#include "storage/memory/huge_memory.hpp"

BOOST_AUTO_TEST_SUITE(locked_memory)

using namespace troupe;

namespace {

// Returns the remark of lock_memory() for `bytes` in an unprivileged process that may lock `limit` bytes.
std::string said_with_limit(rlim_t limit, uint64_t bytes) {
  std::array<int, 2> ends{-1, -1};
  BOOST_REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit wanted{limit, limit};
    const bool ready = ::setrlimit(RLIMIT_MEMLOCK, &wanted) == 0 && (::geteuid() != 0 || ::setuid(65534) == 0);
    const auto memory = storage::huge_memory::allocate(bytes);
    std::string text = ready && memory ? "locked" : "not ready";
    if (text == "locked")
      if (const auto remark = storage::lock_memory({memory->data(), memory->bytes()})) text = *remark;
    ::_exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text(1000, '\0');
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  ::close(ends[0]);
  int status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  return text;
}

uint64_t locked_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmLck:") {
      uint64_t kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

/// Returns false under sanitizers, which replace mlock by a function that only returns success.
bool mlock_locks() {
  alignas(4096) static std::byte page[4096];
  const auto before = locked_kib();
  const bool locks = ::mlock(page, sizeof page) != 0 || locked_kib() != before;
  ::munlock(page, sizeof page);
  if (!locks) BOOST_TEST_MESSAGE("a sanitizer stands before mlock: nothing is locked");
  return locks;
}

}  // namespace

BOOST_AUTO_TEST_CASE(memory_within_the_limit_is_locked_until_it_is_unmapped) {
  if (!mlock_locks()) return;
  const uint64_t before = locked_kib();
  {
    const auto memory = *storage::huge_memory::allocate(64 << 10);
    const auto remark = storage::lock_memory({memory.data(), memory.bytes()});
    if (!remark)
      BOOST_TEST(locked_kib() == before + 64);
    else
      BOOST_TEST(remark->find("using the memory unlocked") != std::string::npos, *remark);
  }
  BOOST_TEST(locked_kib() == before);
  BOOST_TEST(!storage::lock_memory({}));
  BOOST_TEST(said_with_limit(1 << 20, 64 << 10) == "locked");
}

BOOST_AUTO_TEST_CASE(a_limit_in_the_way_is_named_with_the_command_that_raises_it) {
  if (!mlock_locks()) return;
  for (const rlim_t limit : {rlim_t{8192}, rlim_t{0}}) {
    const auto said = said_with_limit(limit, 64 << 10);
    BOOST_TEST(said.find("memory: cannot lock 65536 bytes: ") == 0U, said);
    BOOST_TEST(
        said.find(fmt::format("RLIMIT_MEMLOCK is {} bytes, raise it with `ulimit -l`", limit)) != std::string::npos,
        said);
    BOOST_TEST(said.find("using the memory unlocked") != std::string::npos, said);
  }
}

BOOST_AUTO_TEST_SUITE_END()
