// Tests that the programs of a release build are hardened, by examining the program files.
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(hardening)

using namespace troupe::tests;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(programs_are_placed_anywhere_bound_at_once_and_watch_their_stack_and_bounds) {
  if (!TROUPE_HARDENED) {
    BOOST_TEST_MESSAGE("not optimised, or a sanitizer watches");
    return;
  }
  const auto beside = (fs::path(troupe::places::troupe_binary).parent_path() / "troupe-train").string();
  for (const auto& program : {std::string(troupe::places::troupe_binary), beside}) {
    BOOST_TEST_INFO_SCOPE(program);
    const auto r =
        check_exit(0, run({"/usr/bin/readelf", "--wide", "--segments", "--dynamic", "--dyn-syms", program}, "/"));
    // The program must be position-independent, all its relocations must be done and read-only before main, and its
    // stack must not be executable.
    BOOST_TEST(has(r.out, "Elf file type is DYN (Position-Independent Executable file)"), program);
    BOOST_TEST(has(r.out, "GNU_RELRO"), program);
    BOOST_TEST(has(r.out, "BIND_NOW"), program);
    BOOST_TEST(has(r.out, " PIE"), program);
    BOOST_TEST(!has(r.out, "TEXTREL"), program);
    const auto stack = r.out.find("GNU_STACK");
    BOOST_TEST_REQUIRE(stack != std::string::npos);
    BOOST_TEST(!has(r.out.substr(stack, r.out.find('\n', stack) - stack), "RWE"), program);
    // These symbols come from -fstack-protector-strong, _FORTIFY_SOURCE and _GLIBCXX_ASSERTIONS.
    BOOST_TEST(has(r.out, "__stack_chk_fail"), program);
    BOOST_TEST(has(r.out, "__memcpy_chk"), program);
    BOOST_TEST(has(r.out, "__glibcxx_assert_fail"), program);
  }
}

BOOST_AUTO_TEST_SUITE_END()
