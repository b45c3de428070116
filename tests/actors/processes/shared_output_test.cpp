// Tests the temporary file by which machines detect that they share an output folder: the file is seen while others are
// written, is not seen, or must not be written, and it is always removed.
#include "actors/processes/shared_output.hpp"

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <iterator>

#include "core/clock.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(shared_output)

using namespace troupe;
using namespace troupe::actors;
using troupe::tests::check_failed;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(a_sign_is_seen_by_all_and_nothing_stays) {
  const tests::scratch_folder folder;
  std::ofstream(folder.path() / ".troupe-output-of-a-killed-process") << "x";
  {
    const auto sign = output_sign::put(folder.path());
    BOOST_TEST_REQUIRE(sign.has_value());
    BOOST_TEST(fs::path(sign->call().path).parent_path() == folder.path());
    for (const uint32_t place : {1U, 2U}) {
      BOOST_TEST_INFO_SCOPE("place " << place);
      const auto seen = look_for_sign(sign->call(), place);
      BOOST_TEST(seen.has_value(), (seen ? "" : seen.error().text));
    }
  }
  BOOST_TEST(fs::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(it_is_above_a_folder_that_is_not_there_yet) {
  const tests::scratch_folder folder;
  const auto sign = output_sign::put(folder.path() / "runs" / "one");
  BOOST_TEST_REQUIRE(sign.has_value());
  BOOST_TEST(fs::path(sign->call().path).parent_path() == folder.path());
  BOOST_TEST(!fs::exists(folder.path() / "runs"));
}

BOOST_AUTO_TEST_CASE(another_folder_of_that_name_is_refused_soon) {
  const tests::scratch_folder folder;
  auto told = output_sign::put(folder.path())->call();  // the temporary file is removed when this statement ends
  for (const char* content : {"", "of another job"}) {
    BOOST_TEST_INFO_SCOPE(content);
    if (*content != '\0') std::ofstream(told.path) << content;
    const int64_t began_ns = core::now_ns();
    const auto seen = look_for_sign(told, 1);
    BOOST_TEST_REQUIRE(!seen.has_value());
    BOOST_TEST((seen.error().kind == core::error_kind::bad_input));
    BOOST_TEST(seen.error().text.starts_with("output: wanted one folder of all hosts, '" + folder.path().string()));
    BOOST_TEST(core::now_ns() - began_ns < 2 * sign_ns_max);
  }
}

BOOST_AUTO_TEST_CASE(a_folder_that_may_not_be_written_is_refused) {
  std::ifstream in("/proc/self/comm");  // reads a file in a folder in which not even root can create files
  const std::string content((std::istreambuf_iterator<char>(in)), {});
  check_failed(look_for_sign({"/proc/self/comm", content}, 1), "into which all hosts may write, '/proc/self', got: ");
}

BOOST_AUTO_TEST_SUITE_END()
