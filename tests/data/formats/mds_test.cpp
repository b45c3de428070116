// Tests shards in the format of MosaicML's streaming data sets (MDS).
#include "data/formats/row_files.hpp"

#include <fmt/format.h>

#include <cstring>

#include "tests/data/formats/foreign.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::tests;

namespace {

std::string mds_number(uint32_t x) {
  std::string out(sizeof x, '\0');
  std::memcpy(out.data(), &x, sizeof x);
  return out;
}

/// Returns a shard as MDSWriter writes it: the number of samples, the offset of each, the columns, the samples.
std::string shard_of(const std::vector<std::string>& samples, const std::string& described) {
  uint64_t at = 4 + 4 * (samples.size() + 1) + described.size();
  std::string table = mds_number(static_cast<uint32_t>(samples.size())) + mds_number(static_cast<uint32_t>(at)), all;
  for (const auto& s : samples) {
    table += mds_number(static_cast<uint32_t>(at += s.size()));
    all += s;
  }
  return table + described + all;
}

/// Returns a sample with three columns: one of fixed size, the text, one of bytes.
std::string mds_sample(const std::string& text, const std::string& bytes = "xyz") {
  return mds_number(static_cast<uint32_t>(text.size())) + mds_number(static_cast<uint32_t>(bytes.size())) + "12345678" +
         text + bytes;
}

const std::string mds_columns =
    R"({"column_encodings":["int","str","bytes"],"column_names":["id","text","tokens"],"column_sizes":[8,null,null],)"
    R"("compression":null,"format":"mds","hashes":[],"size_limit":67108864,"version":2})";

/// Returns the entry of a shard in an index.json.
std::string mds_entry(const std::string& name, uint64_t samples, const std::string& packed = "null") {
  return fmt::format(R"({{"format": "mds", "raw_data": {{"basename": "{}"}}, "zip_data": {}, "samples": {}}})", name,
                     packed, samples);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mds)

BOOST_AUTO_TEST_CASE(the_text_of_each_sample_is_read) {
  const scratch_folder at;
  const auto path = at.write("shard.00000.mds",
                             shard_of({mds_sample("first one"), mds_sample(""), mds_sample("third", "")}, mds_columns));
  const auto got = rows_of(path);
  BOOST_REQUIRE_MESSAGE(got, got.error().text);
  BOOST_TEST(*got == (std::vector<std::string>{"first one", "", "third"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_column_whose_name_another_one_has_is_refused) {
  const scratch_folder at;
  auto columns = mds_columns;
  columns.replace(columns.find("\"tokens\""), 8, "\"text\"");
  check_rows_refused(at.write("shard.00000.mds", shard_of({mds_sample("one")}, columns)),
                     "several columns are named 'text' (data.text_key): rename all but the one to read");
}

BOOST_AUTO_TEST_CASE(a_folder_of_shards_is_read_without_its_index) {
  const scratch_folder at;
  at.write("in/shard.00000.mds", shard_of({mds_sample("one ")}, mds_columns));
  at.write("in/shard.00001.mds", shard_of({mds_sample("two")}, mds_columns));
  at.write("in/index.json", "{\"shards\": [" + mds_entry("shard.00000.mds", 1) + ", " +
                                mds_entry("shard.00001.mds", 1) + "], \"version\": 2}");
  const auto stream = opened({.path = at / "in"});
  BOOST_TEST(as_text(*stream) == "one two");
  BOOST_TEST(stream->documents() == 2U);
}

BOOST_AUTO_TEST_CASE(the_index_says_which_shards_are_read) {
  const scratch_folder at;
  const auto index = [&](const std::string& entries) {
    at.write("in/index.json", "{\"shards\": [" + entries + "], \"version\": 2}");
  };
  at.write("in/shard.00000.mds", shard_of({mds_sample("one")}, mds_columns));
  at.write("in/shard.00001.mds", shard_of({mds_sample("stale")}, mds_columns));
  index(mds_entry("shard.00000.mds", 1));
  const auto stream = opened({.path = at / "in"});
  BOOST_TEST(as_text(*stream) == "one");
  BOOST_TEST(stream->summary().left_out == std::vector<std::string>{"shard.00001.mds (not listed in index.json)"},
             boost::test_tools::per_element());
  index(mds_entry("shard.00000.mds", 1) + ", " + mds_entry("shard.00002.mds", 1));
  check_refused({.path = at / "in"}, core::error_kind::bad_input,
                "index.json' lists 'shard.00002.mds', which is missing");
  index(mds_entry("shard.00000.mds", 2));
  check_refused({.path = at / "in"}, core::error_kind::bad_input, "shard.00000.mds' holds 1 samples, but '");
  at.write("in/shard.00003.mds.gz", gzip(shard_of({mds_sample("three")}, mds_columns)));
  index(mds_entry("shard.00003.mds", 1, R"({"basename": "shard.00003.mds.gz"})"));
  BOOST_TEST(as_text(*opened({.path = at / "in"})) == "three");
  at.write("in/index.json", "{}");
  check_refused({.path = at / "in"}, core::error_kind::bad_input, "cannot be read: wanted the list shards");
}

BOOST_AUTO_TEST_CASE(one_index_can_list_the_shards_of_several_folders) {
  const scratch_folder at;
  at.write("in/a/shard.00000.mds", shard_of({mds_sample("one")}, mds_columns));
  at.write("in/index.json", "{\"shards\": [" + mds_entry("a/shard.00000.mds", 1) + "]}");
  BOOST_TEST(as_text(*opened({.path = at / "in"})) == "one");
}

BOOST_AUTO_TEST_CASE(columns_of_other_types_are_named) {
  const scratch_folder at;
  const auto path = at.write("a.mds", shard_of({mds_sample("first")}, mds_columns));
  check_rows_refused(path, "no column 'body' (data.text_key), it has id, text, tokens", "body");
  check_rows_refused(path, "column 'tokens': wanted text (str), got bytes; write tokens as a .bin file", "tokens");
  check_rows_refused(at.write("b.mds", "ab"), "not a valid MosaicML shard");
}

BOOST_AUTO_TEST_CASE(broken_shards_are_read_or_refused) {
  const scratch_folder at;
  const auto sound = shard_of({mds_sample("first one"), mds_sample("second")}, mds_columns);
  each_mutation(sound, 2000, [&](const std::string& broken) {
    const auto got = rows_of(at.write("a.mds", broken));
    BOOST_REQUIRE((got || !got.error().text.empty()));
  });
}

BOOST_AUTO_TEST_SUITE_END()
