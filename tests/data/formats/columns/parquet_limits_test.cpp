// Tests small Parquet files that expand to many rows or bytes: their reader can be stopped at any time, and its memory
// is limited.
#include "data/formats/row_files.hpp"
#include "tests/data/formats/columns/made_parquet.hpp"
#include "tests/data/formats/foreign.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(parquet_limits)

using namespace troupe;
using namespace troupe::tests;
using namespace troupe::tests::parquet_made;

namespace {

/// Largest number of rows that one run of the run-length encoding can have.
constexpr int64_t many = (int64_t{1} << 34) - 1;

/// Returns pages with `rows` rows that all refer to the only word of a dictionary, an empty text.
std::string empty_texts(int64_t rows) {
  return dictionary_page(1, 4, std::string(4, '\0')) +
         data_page(rows, 8, std::string(1, '\0') + zeros(static_cast<uint64_t>(rows), 0));
}

std::string pages(int count, const std::string& page) {
  std::string out;
  for (int i = 0; i < count; ++i) out += page;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_of_nulls_is_passed_over_at_once) {
  const scratch_folder at;
  const auto page = data_page(many, 0, with_length(zeros(many, 1)));
  const auto got = rows_of(at.write("t.parquet", file_of_column(true, 8 * many, 0, pages(8, page))));
  BOOST_REQUIRE_MESSAGE(got, got.error().text);
  BOOST_TEST(got->empty());
}

BOOST_AUTO_TEST_CASE(where_rows_have_no_text_the_reading_can_be_ended) {
  const scratch_folder at;
  constexpr int64_t rows = 1 << 20;  // number of null rows, which have one bit each
  const auto bits = varint(rows / 8 << 1 | 1) + std::string(rows / 8, '\0');
  const auto path = at.write("t.parquet", file_of_column(true, rows, 0, data_page(rows, 0, with_length(bits))));
  const auto content = core::source_file::open(path);
  BOOST_REQUIRE(content);
  uint64_t calls = 0;
  const auto visit = [&](std::optional<std::string_view> text, uint64_t) -> core::result<void> {
    BOOST_TEST(!text.has_value());
    if (++calls < 10) return {};
    return core::fail(core::error_kind::stopped, "enough");
  };
  const auto ok = data::read_parquet(*content, "text", visit);
  BOOST_REQUIRE(!ok);
  BOOST_TEST(ok.error().text == "enough");
}

BOOST_AUTO_TEST_CASE(rows_of_empty_text_count_against_the_limit_and_can_be_ended) {
  const scratch_folder at;
  const auto path = at.write("t.parquet", file_of_column(false, many, 0, empty_texts(many)));
  check_refused({.path = path, .max_bytes = 1 << 20}, core::error_kind::limit, "a row counts as 8 at least");
  uint64_t calls = 0;
  const auto watch = [&](const data::reading_progress&) { return ++calls < 10; };
  check_refused({.path = path, .watch = watch}, core::error_kind::stopped, "stopped while reading");
}

BOOST_AUTO_TEST_CASE(a_long_row_can_be_ended_in_the_middle) {
  const scratch_folder at;
  const auto text = with_length(std::string(8 * data::give_bytes, 'a'));
  const auto path = at.write("t.parquet", file_of_column(false, 1, 0, data_page(1, 0, text)));
  uint64_t calls = 0;
  const auto watch = [&](const data::reading_progress& p) { return ++calls, p.tokens < 4 * data::give_bytes; };
  check_refused({.path = path, .watch = watch}, core::error_kind::stopped, "stopped while reading");
}

BOOST_AUTO_TEST_CASE(a_dictionary_and_the_places_of_its_words_have_one_limit) {
  const scratch_folder at;
  const auto member = gzip(std::string(1 << 20, '\0'));
  constexpr int64_t mib = 300;  // size in MiB of a dictionary of empty words, which take four bytes each
  const auto dictionary = dictionary_page(mib << 18, mib << 20, pages(mib, member));
  check_rows_refused(at.write("t.parquet", file_of_column(false, 1, 2, dictionary)),
                     "a dictionary of 78643200 words in 314572800 bytes: wanted at most 536870912 bytes");
}

BOOST_AUTO_TEST_CASE(long_names_of_a_schema_are_not_copied_for_each_of_its_columns) {
  const scratch_folder at;
  constexpr int64_t leaves = 2'000'000, deep = 30;
  std::string schema = structure({text(4, "schema"), number(5, 1)});
  for (int64_t i = 1; i <= deep; ++i)
    schema += structure({text(4, std::string(65000, 'g')), number(5, i < deep ? 1 : leaves)});
  const auto leaf = structure({number(1, 6), text(4, "a")});
  for (int64_t i = 0; i < leaves; ++i) schema += leaf;
  check_rows_refused(at.write("t.parquet", file_of_schema(1 + deep + leaves, schema)),
                     "wanted a column 'text' with the text (data.text_key), got 'gggg");
}

BOOST_AUTO_TEST_CASE(names_with_dots_are_found_whichever_part_holds_them) {
  const scratch_folder at;
  const auto leaf = [](const std::string& name) { return structure({number(1, 1), text(4, name)}); };
  const auto group = [](const std::string& name) { return structure({text(4, name), number(5, 1)}); };
  const auto schema = structure({text(4, "schema"), number(5, 4)}) + group("a") + leaf("b") + group("a.b") + leaf("c") +
                      group("d") + leaf("e.f") + leaf("g.h");
  const auto path = at.write("t.parquet", file_of_schema(8, schema));
  for (const char* key : {"a.b", "a.b.c", "d.e.f", "g.h"})
    check_rows_refused(path, std::string("wanted text in the column '") + key + "', got int32", key);
  for (const char* key : {"a", "d"})
    check_rows_refused(path, std::string("wanted text in the column '") + key + "', got a structure", key);
  for (const char* key : {"a.b.c.d", "a.", "b", "g", ""})
    check_rows_refused(path, "got 'a.b', 'a.b.c', 'd.e.f', 'g.h'", key);
}

BOOST_AUTO_TEST_CASE(lists_and_maps_are_called_so) {
  const scratch_folder at;
  const auto plain = foreign_path("plain_snappy.parquet");
  check_rows_refused(plain, "wanted text in the column 'tags', got a list", "tags");
  check_rows_refused(plain, "wanted text in the column 'tags.list', got a list", "tags.list");
  const auto map_of = [](const std::string& head) {
    return structure({text(4, "schema"), number(5, 1)}) + head +
           structure({number(3, 2), text(4, "entries"), number(5, 1)}) + structure({number(1, 6), text(4, "key")});
  };
  const auto old = structure({text(4, "m"), number(5, 1), number(6, 1)});
  const auto logical = structure({text(4, "m"), number(5, 1), structure(10, {structure(2, {})})});
  for (const auto& head : {old, logical}) {
    const auto path = at.write("t.parquet", file_of_schema(4, map_of(head)));
    check_rows_refused(path, "wanted text in the column 'm', got a map", "m");
    check_rows_refused(path, "wanted text in the column 'm.entries.key', got a map", "m.entries.key");
  }
}

BOOST_AUTO_TEST_SUITE_END()
