// Tests that reading a file while another program changes it returns an error and never ends the process.
#include "core/source_file.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(source_file)

using namespace troupe;
using namespace troupe::tests;

namespace {

std::string read(const core::source_file& file, uint64_t offset, size_t bytes) {
  std::string out(bytes, '?');
  const auto ok = file.read(offset, std::as_writable_bytes(std::span(out)));
  return ok ? out : ok.error().text;
}

core::source_file opened(const std::filesystem::path& path) {
  auto file = core::source_file::open(path);
  if (!file) throw std::runtime_error(file.error().text);
  return std::move(*file);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_come_from_any_place_and_longer_files_are_read_as_they_were) {
  const scratch_folder at;
  const auto path = at.write("a", "0123456789");
  const auto file = opened(path);
  at.write("a", "0123456789 and more");
  BOOST_TEST(file.size() == 10U);
  BOOST_TEST(read(file, 3, 4) == "3456");
  BOOST_TEST(read(file, 10, 0).empty());
  BOOST_TEST(file.read_all(10).value() == "0123456789");
  BOOST_TEST((file.read_all(9).error().kind == core::error_kind::limit));
}

BOOST_AUTO_TEST_CASE(a_file_that_was_cut_short_is_named_with_the_place) {
  const scratch_folder at;
  const auto path = at.write("a", std::string(3 * 4096, 'x'));
  const auto file = opened(path);
  std::filesystem::resize_file(path, 4096 + 5);  // truncates the file within a page
  BOOST_TEST(read(file, 4096, 5) == "xxxxx");
  BOOST_TEST(has(read(file, 4096, 6),
                 "it had 12288 bytes when it was opened and has become shorter: it ends before "
                 "byte 4101"));
  BOOST_TEST(has(read(file, 8192, 1), path.string()));
}

BOOST_AUTO_TEST_CASE(a_file_without_a_descriptor_is_opened_for_each_read_and_a_replacement_is_refused) {
  const scratch_folder at;
  const auto path = at.write("a", "0123456789");
  auto file = opened(path);
  file.close_between_reads();
  BOOST_TEST(read(file, 2, 3) == "234");
  std::filesystem::rename(path, at / "b");
  BOOST_TEST(has(read(file, 2, 3), "No such file"));
  at.write("a", "0123456789");
  BOOST_TEST(has(read(file, 2, 3), "another file has taken its place"));
}

BOOST_AUTO_TEST_CASE(anything_but_a_regular_file_is_refused) {
  const scratch_folder at;
  BOOST_TEST((core::source_file::open(at / "missing").error().kind == core::error_kind::bad_input));
  BOOST_TEST(has(core::source_file::open(at.path()).error().text, "a regular file was wanted"));
}

BOOST_AUTO_TEST_SUITE_END()
