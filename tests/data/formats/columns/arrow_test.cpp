// Tests text columns in Arrow files: the rows that pyarrow and `datasets` read, and invalid streams.
#include "data/formats/row_files.hpp"

#include <filesystem>

#include "data/formats/columns/arrow_views.hpp"
#include "tests/check_ok.hpp"
#include "tests/data/formats/foreign.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(arrow)

using namespace troupe;
using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(rows_are_those_that_pyarrow_reads) {
  for (const char* name :
       {"stream.arrow", "file.arrow", "stream_zstd.arrow", "file_zstd.feather", "large.arrow", "binary.arrow",
        "category.arrow", "category_grows.arrow", "stream_lz4.arrow", "file_lz4.feather", "null_word.arrow",
        "null_word_named.arrow", "view.arrow", "view_file_zstd.feather", "view_binary.arrow", "view_joined.arrow"})
    check_rows(name);
}

// Polars stores texts as views, and its files do not begin with a schema.
BOOST_AUTO_TEST_CASE(rows_are_those_that_polars_has_written) {
  for (const char* name : {"polars.arrow", "polars_zstd.feather", "polars_stream.arrow", "polars_category.arrow"})
    check_rows(name);
}

BOOST_AUTO_TEST_CASE(a_data_set_as_datasets_saves_it_is_its_rows) {
  const auto text_of = [](const std::string& name) {
    std::string out;
    for (const auto& row : foreign(name).get<std::vector<std::string>>()) out += row;
    return out;
  };
  // The folder on_disk also contains dataset_info.json and state.json, which are not read.
  const auto folder = opened({.path = foreign_path("on_disk")});
  BOOST_TEST(as_text(*folder) == text_of("on_disk"));
  BOOST_TEST(folder->documents() == foreign("on_disk").size());
  check_refused({.path = foreign_path("splits")}, core::error_kind::bad_input,
                "holds splits of a data set: name the folder of one of them: test, train");
  BOOST_TEST(as_text(*opened({.path = foreign_path("splits") / "train"})) == text_of("splits"));
  const scratch_folder at;
  std::filesystem::copy(foreign_path("on_disk"), at / "saved", std::filesystem::copy_options::recursive);
  std::filesystem::copy(foreign_path("file.arrow"), at / "saved/cache-0123.arrow");
  const auto listed = opened({.path = at / "saved"});
  BOOST_TEST(as_text(*listed) == text_of("on_disk"));
  BOOST_TEST(listed->summary().left_out == std::vector<std::string>{"cache-0123.arrow (not listed in state.json)"},
             boost::test_tools::per_element());
  std::filesystem::remove(at / "saved/data-00001-of-00002.arrow");
  check_refused({.path = at / "saved"}, core::error_kind::bad_input,
                "state.json' lists 'data-00001-of-00002.arrow', which is missing");
  for (const char* broken : {"{", R"({"_data_files": ["a"]})"}) {
    at.write("saved/state.json", broken);
    check_refused({.path = at / "saved"}, core::error_kind::bad_input,
                  "state.json', which lists the files of its data set, cannot be read: ");
  }
  // Files with these names in other folders are JSON files like any other.
  at.write("in/state.json", "{\"text\": \"a state\"}");
  BOOST_TEST(as_text(*opened({.path = at / "in"})) == "a state");
}

// The schema at the beginning of the file has no length, and the footer states where the batches are stored.
BOOST_AUTO_TEST_CASE(a_file_whose_stream_begins_with_no_schema_is_read_by_its_footer) {
  const scratch_folder at;
  for (const char* name : {"file.arrow", "file_zstd.feather", "file_lz4.feather"}) {
    BOOST_TEST_INFO_SCOPE(name);
    auto file = content_of(foreign_path(name));
    std::fill_n(file.begin() + 8, 8, '\0');
    const auto rows = check_ok(rows_of(at.write(name, file)));
    BOOST_TEST(*rows == foreign(name).get<std::vector<std::string>>(), boost::test_tools::per_element());
    each_mutation(file, 300, [&](const std::string& broken) { (void)rows_of(at.write(name, broken)); });
  }
}

BOOST_AUTO_TEST_CASE(columns_that_hold_no_text_are_named) {
  const auto path = foreign_path("stream.arrow");
  check_rows_refused(
      path, "wanted a column 'body' with the text (data.text_key), got 'nothing', 'flag', 'pairs', 'map', ", "body");
  check_rows_refused(path, "wanted text in the column 'id', got integers", "id");
  check_rows_refused(path, "wanted text in the column 'tags', got lists", "tags");
}

BOOST_AUTO_TEST_CASE(a_column_whose_name_another_one_has_is_refused) {
  const scratch_folder at;
  const auto prefix = std::string("\x04\0\0\0", 4);
  for (const char* other : {"flag", "tags"}) {
    auto stream = content_of(foreign_path("stream.arrow"));
    const auto place = stream.find(prefix + other);
    BOOST_REQUIRE(place != std::string::npos);
    stream.replace(place + prefix.size(), 4, "text");
    check_rows_refused(at.write("t.arrow", stream), "several columns are named 'text' (data.text_key): rename all but");
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_read_is_named) {
  const scratch_folder at;
  check_rows_refused(at.write("t.feather", "FEA1 and what follows"), "a Feather file of version 1");
}

BOOST_AUTO_TEST_CASE(streams_that_are_cut_off_or_go_on_are_named) {
  const scratch_folder at;
  const auto refused = [&](const std::string& text, const std::string& words) {
    check_rows_refused(at.write("t.arrow", text), words);
  };
  const auto stream = content_of(foreign_path("stream.arrow"));
  const auto file = content_of(foreign_path("file.arrow"));
  refused("", "is not a complete Arrow file or stream: 0 bytes");
  refused(std::string(8, '\0'), "it has no schema");
  refused("some text that is no stream at all", "its description has 1701670771 bytes");
  refused(file.substr(0, file.size() - 1), "wanted it to end with ARROW1");
  refused(std::string("ARROW1\0\0", 8) + std::string("\xFF\xFF\xFF\x7F", 4) + "ARROW1",
          "a footer of 2147483647 bytes in a file of 18");
  refused(stream.substr(0, stream.size() - 100), "its body has");
  refused(stream + "more", "4 bytes follow its end");
}

BOOST_AUTO_TEST_CASE(rows_of_a_batch_that_lies_are_named) {
  const scratch_folder at;
  // 64-bit offsets of the first texts: 0, then the length of the first text.
  auto text = content_of(foreign_path("large.arrow"));
  const auto rows = foreign("large.arrow").get<std::vector<std::string>>();
  const auto place = text.find(std::string(8, '\0') + as_bytes(std::vector<uint64_t>{rows[0].size()}));
  BOOST_REQUIRE(place != text.npos);
  text[place + 8 + 6] = 1;
  check_rows_refused(at.write("t.arrow", text), "row 0 has the offsets 0 and 2814749767106");
}

BOOST_AUTO_TEST_CASE(a_view_that_names_what_is_not_there_is_named) {
  const scratch_folder at;
  const auto sound = content_of(foreign_path("view_binary.arrow"));
  const auto rows = foreign("view_binary.arrow").get<std::vector<std::string>>();
  const auto long_row = std::ranges::find_if(rows, [](const std::string& r) { return r.size() > 12; });
  const auto length = static_cast<uint32_t>(long_row->size());
  const auto view = sound.find(as_bytes(std::vector<uint32_t>{length}) + long_row->substr(0, 4));
  BOOST_REQUIRE(view != sound.npos);
  const auto with = [&](size_t field, uint32_t value) {
    return at.write("t.arrow", std::string(sound).replace(view + field, 4, as_bytes(std::vector<uint32_t>{value})));
  };
  check_rows_refused(with(8, 9), ": a text is in buffer 9, but there are 1");
  check_rows_refused(with(12, 1'000'000), " begins at byte 1000000, but there are ");
  check_rows_refused(with(0, 0x80000000), ": a text of -2147483648 bytes");
  check_rows_refused(with(0, 0x7FFFFFFF), ": a text of 2147483647 bytes, at most 67108864 are read");
}

BOOST_AUTO_TEST_CASE(buffers_of_views_are_closed_before_their_long_texts_exceed_the_memory_of_one) {
  const scratch_folder at;
  std::filesystem::resize_file(at.write("texts", ""), data::max_row_bytes);  // creates a sparse file of zeros
  const auto file = check_ok(core::source_file::open(at / "texts"));
  constexpr uint32_t fitting = data::max_block_bytes / data::max_row_bytes;
  uint32_t opened = 0;
  data::viewed_texts texts(fitting + 1, [&](uint64_t) {
    ++opened;
    return data::column_buffer::open(*file, 0, data::max_row_bytes, data::block_codec::none);
  });
  const auto read = [&](uint32_t buffer) {
    const std::string view = as_bytes(std::vector<uint32_t>{static_cast<uint32_t>(data::max_row_bytes), 0, buffer, 0});
    const auto text = check_ok(texts.text(std::as_bytes(std::span(view))));
    BOOST_TEST(text->size() == data::max_row_bytes);
  };
  for (uint32_t buffer = 0; buffer < fitting; ++buffer) read(buffer);
  read(0);
  BOOST_TEST(opened == fitting);  // all buffers fit into the memory limit and stay open
  read(fitting);                  // opening one more buffer exceeds the limit, so the others are closed
  read(0);
  BOOST_TEST(opened == fitting + 2);
}

BOOST_AUTO_TEST_CASE(words_of_a_dictionary_and_where_they_end_have_one_limit) {
  check_rows_refused(foreign_path("refused_words.arrow"),  // the file contains a dictionary of eight words of 64 MiB
                     "a dictionary of more than 536870912 bytes with 4 for each of its words");
}

BOOST_AUTO_TEST_CASE(where_rows_have_no_text_the_reading_can_be_ended) {
  // The file has 2 * 65,536 rows without text in one batch.
  const auto file = core::source_file::open(foreign_path("nulls.arrow"));
  BOOST_REQUIRE(file);
  uint64_t calls = 0;
  const auto visit = [&](std::optional<std::string_view> text, uint64_t) {
    BOOST_TEST(!text.has_value());
    return ++calls < 5 ? core::result<void>{} : core::fail(core::error_kind::stopped, "enough");
  };
  // The reader also calls `visit` before each of three messages.
  check_error(data::read_arrow(*file, "text", visit), "enough");
}

BOOST_AUTO_TEST_CASE(mutated_streams_are_read_or_refused) {
  const scratch_folder at;
  for (const char* name : {"stream.arrow", "file.arrow", "stream_zstd.arrow", "category.arrow", "category_grows.arrow",
                           "stream_lz4.arrow", "view.arrow", "polars_category.arrow"})
    each_mutation(content_of(foreign_path(name)), 240, [&](const std::string& text) {
      const auto path = at.write("t.arrow", text);
      const auto got = rows_of(path);
      if (!got) BOOST_TEST(got.error().text.find(path.string()) != std::string::npos, got.error().text);
    });
}

BOOST_AUTO_TEST_SUITE_END()
