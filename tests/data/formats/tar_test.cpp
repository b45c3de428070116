// Tests tar files of samples: the texts that `webdataset` reads, and invalid tar files.
#include "data/formats/row_files.hpp"

#include "tests/data/formats/foreign.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(tar)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Returns one member with its header; `size` is the size stated in the header, if not the content's.
std::string member(const std::string& name, const std::string& content, char type = '0', std::string size = "") {
  char octal[13];
  std::snprintf(octal, sizeof octal, "%011zo", content.size());
  if (size.empty()) size = octal;
  std::string out(512, '\0');
  out.replace(0, name.size(), name).replace(124, size.size(), size).replace(148, 8, "        ");
  out[156] = type;
  out.replace(257, 8, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : out) sum += static_cast<unsigned char>(c);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  out.replace(148, 6, octal)[154] = '\0';
  return out + content + std::string((512 - content.size() % 512) % 512, '\0');
}

const std::string end_of_tar(1024, '\0');

}  // namespace

BOOST_AUTO_TEST_CASE(texts_are_those_that_webdataset_reads) {
  for (const char* name : {"texts.tar", "json.tar", "gnu.tar", "pax.tar", "ustar.tar", "others.tar"}) check_rows(name);
  std::string all;
  for (const auto& text : foreign("texts.tar.gz")) all += text.get<std::string>();
  const auto stream = opened({.path = foreign_path("texts.tar.gz")});
  BOOST_TEST(as_text(*stream) == all);
  BOOST_TEST(stream->documents() == foreign("texts.tar.gz").size());
}

BOOST_AUTO_TEST_CASE(the_text_of_a_sample_is_the_file_that_the_key_names) {
  const scratch_folder at;
  const auto path = at.write("t.tar", member("d", "", '5') + member("d/1.caption", "one") + member("d/1.jpg", "\xFF") +
                                          member("d/README", "no sample") +
                                          member("d/2.json", "{\"caption\":\n \"two\"}") + end_of_tar);
  const auto got = rows_of(path, "caption");
  BOOST_REQUIRE_MESSAGE(got, got.error().text);
  BOOST_TEST(*got == (std::vector<std::string>{"one", "two"}), boost::test_tools::per_element());
  check_rows_refused(path,
                     "sample 'd/1' at byte 512: wanted its text in a file .text or .txt or under 'text' in a .json, "
                     "got .caption, .jpg");
}

BOOST_AUTO_TEST_CASE(tars_that_lie_are_named) {
  const scratch_folder at;
  const auto refused = [&](const std::string& text, const std::string& words) {
    check_rows_refused(at.write("t.tar", text), words);
  };
  refused("some text that is no tar", "its header is cut off");
  refused(std::string(512, 'x'), "no tar header");
  refused(member("1.txt", std::string(600, 'a')).substr(0, 1000), "wanted 600 bytes after its header, got 488");
  refused(member("1.txt", "a", '0', "77777777777"), "wanted 8589934591 bytes after its header, got 512");
  refused(member("1.txt", "a", '0', "\x80" + std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF")),
          "wanted 0 bytes");
  refused(member("1.txt", "a", 'S') + end_of_tar, "('1.txt'): a sparse file");
  refused(member("1.txt", "a") + member("1.text", "b") + end_of_tar,
          "('1.text'): it is a second text of the same sample");
  refused(member("1.json", "{\"body\": \"a\"}") + end_of_tar, "1.json:1: no key 'text'");
  refused(member("1.json", " ") + end_of_tar, "got .json");
  refused(member("1.TXT", "a") + member("1.txt", "b") + end_of_tar,
          "('1.txt'): it is a second text of the same sample");
  refused(member("__1__/2.txt", "") + member("__1.json", "{}") + end_of_tar, "__1.json:1: no key 'text'");
}

BOOST_AUTO_TEST_CASE(a_tar_ends_with_its_end_mark) {
  const scratch_folder at;
  const auto one = member("1.txt", "one"), two = member("2.txt", "two");
  const auto refused = [&](const std::string& text, const std::string& words) {
    check_rows_refused(at.write("t.tar", text), words);
  };
  refused(one + end_of_tar + two + end_of_tar,
          "member at byte 2048: something follows the end mark, as in tars that were joined");
  refused(one + end_of_tar + "x", "member at byte 2048: something follows the end mark");
  refused(one + two, "member at byte 2048: wanted another member or the end mark");
  refused("", "member at byte 0: wanted another member or the end mark");
  refused(one.substr(0, 600), "('1.txt'): the file ends within the padding");
  for (const size_t zeros : {512, 1024, 10240, 700})
    BOOST_TEST_CONTEXT("zeros " << zeros)
    BOOST_TEST(rows_of(at.write("t.tar", one + two + std::string(zeros, '\0'))).value().size() == 2U);
}

BOOST_AUTO_TEST_CASE(mutated_tars_are_read_or_refused) {
  const scratch_folder at;
  for (const char* name : {"texts.tar", "json.tar", "gnu.tar", "pax.tar"})
    each_mutation(content_of(foreign_path(name)), 250, [&](const std::string& text) {
      const auto path = at.write("t.tar", text);
      const auto got = rows_of(path);
      if (!got) BOOST_TEST(got.error().text.find(path.string()) != std::string::npos, got.error().text);
    });
}

BOOST_AUTO_TEST_SUITE_END()
