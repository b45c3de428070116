// Tests text columns in Parquet files: the rows that `datasets` reads, and invalid files.
#include "data/formats/row_files.hpp"

#include "data/formats/columns/parquet_footer.hpp"
#include "tests/check_ok.hpp"
#include "tests/data/formats/columns/made_parquet.hpp"
#include "tests/data/formats/foreign.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(parquet)

using namespace troupe;
using namespace troupe::tests;

namespace {

data::parquet_chunk chunk_of(const std::string& name) {
  const auto file = core::source_file::open(foreign_path(name));
  BOOST_REQUIRE(file);
  const auto column = data::read_parquet_footer(*file, "text");
  BOOST_REQUIRE(column);
  return column->chunks.at(0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_those_that_datasets_reads) {
  for (const char* name :
       {"plain_snappy", "words_snappy", "words_zstd_2", "plain_zstd_2", "words_gzip", "plain_none", "large", "binary",
        "required", "category", "words_lz4", "plain_lz4_2", "delta_length", "delta_text_2"})
    check_rows(name + std::string(".parquet"));
  check_rows("plain_snappy.parquet", "meta.body", "plain_snappy.parquet meta.body");
}

BOOST_AUTO_TEST_CASE(rows_become_documents_of_a_run) {
  const scratch_folder at;
  at.write("in/a.parquet", content_of(foreign_path("words_zstd_2.parquet")));
  at.write("in/b.jsonl", "{\"text\": \"last\"}");
  std::string wanted;
  const auto rows = foreign("words_zstd_2.parquet").get<std::vector<std::string>>();
  for (const auto& row : rows) wanted += row;
  const auto stream = opened({.path = at / "in"});
  BOOST_TEST(as_text(*stream) == wanted + "last");
  BOOST_TEST(stream->documents() == rows.size() + 1);
  check_refused({.path = at / "in", .max_bytes = 100}, core::error_kind::limit, "more text than the 100 bytes");
}

BOOST_AUTO_TEST_CASE(columns_that_hold_no_text_are_named) {
  const auto path = foreign_path("plain_snappy.parquet");
  check_rows_refused(
      path, "wanted a column 'body' with the text (data.text_key), got 'id', 'tags.list.element', 'meta.body', ",
      "body");
  check_rows_refused(path, "wanted text in the column 'id', got int64", "id");
  check_rows_refused(path, "wanted text in the column 'score', got float64", "score");
  check_rows_refused(path, "wanted text in the column 'meta', got a structure", "meta");
  check_rows_refused(path, "wanted text in the column 'tags.list.element', got a list", "tags.list.element");
}

BOOST_AUTO_TEST_CASE(a_column_whose_name_another_one_has_is_refused) {
  using parquet_made::number, parquet_made::structure, parquet_made::text;
  const scratch_folder at;
  const auto column = [](const char* name) { return structure({number(1, 6), number(3, 0), text(4, name)}); };
  const auto file_of = [&](const char* last) {
    return parquet_made::file_of_schema(
        4, structure({text(4, "schema"), number(5, 3)}) + column("text") + column("id") + column(last));
  };
  check_rows_refused(at.write("t.parquet", file_of("text")),
                     "several columns are named 'text' (data.text_key): rename all but the one to read");
  const auto sound = check_ok(core::source_file::open(at.write("t.parquet", file_of("other"))));
  check_ok(data::read_parquet_footer(*sound, "text"));
}

BOOST_AUTO_TEST_CASE(what_is_not_read_is_named) {
  check_rows_refused(foreign_path("refused_brotli.parquet"),
                     "wanted none, snappy, gzip, zstd or LZ4_RAW as compression of the column 'text', got Brotli");
}

BOOST_AUTO_TEST_CASE(files_and_pages_that_lie_are_named) {
  const scratch_folder at;
  const auto sound = content_of(foreign_path("words_snappy.parquet"));
  const auto refused = [&](std::string text, const std::string& words) {
    check_rows_refused(at.write("t.parquet", text), words);
  };
  refused("", "is not a complete Parquet file: 0 bytes");
  refused("PAR1 and some text that goes on", "wanted it to end with PAR1");
  refused(sound.substr(0, sound.size() - 1), "wanted it to end with PAR1");
  refused("PAR1" + std::string("\xFF\xFF\xFF\x7FPAR1", 8), "a footer of 2147483647 bytes in a file of 12");
  refused(sound.substr(0, sound.size() - 4) + "PARE", "is encrypted");
  auto flipped = sound;  // the test flips a byte in the middle of the column's pages, which have checksums
  const auto pages = chunk_of("words_snappy.parquet");
  flipped[pages.begin + pages.bytes / 2] ^= 1;
  refused(flipped, "its bytes do not match its checksum");
  auto plain = content_of(foreign_path("plain_none.parquet"));
  const auto text = foreign("plain_none.parquet").at(0).get<std::string>();
  plain[plain.find(text, chunk_of("plain_none.parquet").begin) - 1] = 0x7F;
  refused(plain, "value 0 of 4 lies beyond its bytes");
}

BOOST_AUTO_TEST_CASE(mutated_files_are_read_or_refused) {
  const scratch_folder at;
  for (const char* name : {"plain_snappy", "words_snappy", "words_zstd_2", "plain_zstd_2", "words_gzip", "plain_none",
                           "plain_lz4_2", "delta_length", "delta_text_2"})
    each_mutation(content_of(foreign_path(name + std::string(".parquet"))), 200, [&](const std::string& text) {
      const auto path = at.write("t.parquet", text);
      const auto got = rows_of(path);
      if (!got) BOOST_TEST(got.error().text.find(path.string()) != std::string::npos, got.error().text);
    });
}

BOOST_AUTO_TEST_SUITE_END()
