// Tests that loading Troupe changes nothing in the program that loads it. The test loads one library with all of Troupe
// between two snapshots of the process; it loads Torch before, so that Torch's effects are not counted.
#include <c10/core/Allocator.h>
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/places.hpp"

namespace {

namespace fs = std::filesystem;

// Limit in bytes of the heap that loading may use for tables of strings, registries and CAF's static objects; a pool or
// a thread's arena would be far larger.
constexpr size_t heap_bytes_max = size_t{1} << 20;
// Limit in bytes of relocated tables of the library and of its dependencies.
constexpr size_t anonymous_bytes_max = size_t{16} << 20;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.insert(entry.path().filename().string());
  return out;
}

struct process_state {
  std::set<std::string> threads = names_in("/proc/self/task");
  std::set<std::string> descriptors = names_in("/proc/self/fd");
  std::vector<struct sigaction> signals;
  sigset_t mask{};
  size_t heap_bytes = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  size_t anonymous_bytes = 0;
  c10::Allocator* allocator = c10::GetAllocator(c10::DeviceType::CPU);

  process_state() {
    for (int s = 1; s < NSIG; ++s) {
      struct sigaction a {};
      if (::sigaction(s, nullptr, &a) == 0) signals.push_back(a);
    }
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (word == "RssAnon:") status >> anonymous_bytes;
    anonymous_bytes *= 1024;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(loading)

BOOST_AUTO_TEST_CASE(loading_all_of_troupe_leaves_the_process_as_it_was) {
  const process_state before;
  void* library = ::dlopen(troupe::places::whole, RTLD_NOW | RTLD_LOCAL);
  BOOST_REQUIRE_MESSAGE(library != nullptr, ::dlerror());
  const process_state after;
  BOOST_TEST(after.threads.size() == 1U);
  BOOST_TEST(after.threads == before.threads, boost::test_tools::per_element());
  BOOST_TEST(after.descriptors == before.descriptors, boost::test_tools::per_element());
  BOOST_REQUIRE(after.signals.size() == before.signals.size());
  for (size_t i = 0; i < after.signals.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST((after.signals[i].sa_handler == before.signals[i].sa_handler));
    BOOST_TEST(after.signals[i].sa_flags == before.signals[i].sa_flags);
  }
  for (int s = 1; s < NSIG; ++s) BOOST_TEST(::sigismember(&after.mask, s) == ::sigismember(&before.mask, s));
  BOOST_TEST((after.allocator == before.allocator));
#ifndef __SANITIZE_ADDRESS__  // the address sanitizer's heap and shadow memory change the numbers
  BOOST_TEST(after.heap_bytes < before.heap_bytes + heap_bytes_max);
  BOOST_TEST(after.anonymous_bytes < before.anonymous_bytes + anonymous_bytes_max);
#endif
  BOOST_TEST_MESSAGE("heap " << long(after.heap_bytes) - long(before.heap_bytes) << " bytes, anonymous memory "
                             << long(after.anonymous_bytes) - long(before.anonymous_bytes) << " bytes");
  // The library must contain all of Troupe, including symbols that only a session uses.
  BOOST_TEST(::dlsym(library, "_ZN6troupe6actors7sessionD1Ev") != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
