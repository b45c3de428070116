// Which files of a folder are read, and texts that are none.
#include "data/formats/files.hpp"

#include <filesystem>

#include "tests/data/formats/foreign.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(files)

using namespace troupe;
using namespace troupe::tests;
using namespace std::string_literals;

BOOST_AUTO_TEST_CASE(what_is_hidden_or_lies_beside_rows_is_passed_over) {
  const scratch_folder at;
  for (const char* name : {"in/b.txt", "in/a.txt", "in/.hidden", "in/.git/config", "in/.part-0.parquet.crc",
                           "in/_SUCCESS", "in/_metadata", "in/_common_metadata", "in/of/_metadata", "in/of/_c.txt"})
    at.write(name, "text");
  std::vector<std::string> read;
  const auto found = data::source_files(at / "in");
  BOOST_REQUIRE(found.has_value());
  for (const auto& p : *found) read.push_back(std::filesystem::relative(p, at / "in").string());
  BOOST_TEST(read == (std::vector<std::string>{"a.txt", "b.txt", "of/_c.txt"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(links_of_hugging_faces_cache_are_read_and_others_that_lead_out_are_not) {
  const scratch_folder at;
  at.write("hub/blobs/0123", content_of(foreign_path("plain_none.parquet")));
  at.write("secret", "secret");
  std::filesystem::create_directories(at / "hub/snapshots/abc/data");
  std::filesystem::create_symlink("../../../blobs/0123", at / "hub/snapshots/abc/data/train.parquet");
  for (const char* folder : {"hub/snapshots/abc", "hub/snapshots/abc/data"}) {
    const auto found = data::source_files(at / folder);
    BOOST_REQUIRE_MESSAGE(found.has_value(), found.error().text);
    BOOST_TEST(found->size() == 1U);
    BOOST_TEST(found->front().filename() == "train.parquet");
  }
  BOOST_TEST(opened({.path = at / "hub/snapshots/abc"})->documents() == foreign("plain_none.parquet").size());
  std::filesystem::create_symlink("../../../../secret", at / "hub/snapshots/abc/data/more.txt");
  check_refused({.path = at / "hub/snapshots/abc"}, core::error_kind::bad_input, "leads out of the data folder");
}

BOOST_AUTO_TEST_CASE(packed_files_and_other_formats_are_no_text) {
  const scratch_folder at;
  for (const auto& [bytes, what] : std::vector<std::pair<std::string, std::string>>{
           {"\x28\xB5\x2F\xFD packed"s, "packed by zstd"},
           {"\xFD"s + "7zXZ\0 packed"s, "packed by xz"},
           {"BZh91AY&SY packed", "packed by bzip2"},
           {"BZh11AY&SY packed", "packed by bzip2"},
           {"\x04\x22\x4D\x18 packed", "packed by LZ4"},
           {"7z\xBC\xAF\x27\x1C packed", "an archive of 7z"},
           {"PK\x03\x04 packed", "a zip archive"},
           {"\x1F\x8B\x08 packed", "packed by gzip: give it a name in .gz"},
           {content_of(foreign_path("plain_none.parquet")), "a Parquet file: give it a name in .parquet"},
           {content_of(foreign_path("file.arrow")), "an Arrow file: give it a name in .arrow"}})
    check_refused({.path = at.write("corpus.jsonl.zst", bytes)}, core::error_kind::bad_input, what);
  for (const std::string text : {"PAR1 is a word", "BZh", "PK", "ARROW1", "P"})
    BOOST_TEST(as_text(*opened({.path = at.write("t.txt", text)})) == text);
}

BOOST_AUTO_TEST_SUITE_END()
