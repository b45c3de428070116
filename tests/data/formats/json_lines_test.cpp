// Tests files with one JSON text per line; an error names any other line by its number.
#include "data/formats/json_lines.hpp"

#include <random>

#include "tests/check_ok.hpp"
#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(json_lines)

using namespace troupe;
using troupe::tests::check_failed;
using troupe::tests::check_ok;

namespace {

core::result<std::vector<std::string>> read(std::string_view content, const std::string& key = "text") {
  std::vector<std::string> out;
  auto ok = data::read_json_lines(content, "f.jsonl", key, [&](std::string_view text, uint64_t) {
    out.emplace_back(text);
    return core::result<void>{};
  });
  if (!ok) return core::fail(ok.error());
  return out;
}

void check_refused(std::string_view content, const std::string& words) { check_failed(read(content), words); }

}  // namespace

BOOST_AUTO_TEST_CASE(the_text_of_each_line_comes_in_turn) {
  const auto got = read(
      "{\"text\": \"a\\n\\u00e9\"}\r\n\n  \t\n{\"meta\": {\"text\": \"not this\"}, \"text\": \"b\", \"n\": [1, "
      "{\"text\": 2}]}");
  BOOST_REQUIRE(got);
  BOOST_TEST(*got == (std::vector<std::string>{"a\n\xC3\xA9", "b"}), boost::test_tools::per_element());
  BOOST_TEST(read("{\"body\": \"x\"}", "body")->front() == "x");
  BOOST_TEST(read("")->empty());
}

BOOST_AUTO_TEST_CASE(lines_without_text_are_named) {
  check_refused("{\"text\": \"a\"}\n{\"body\": \"b\"}\n",
                "f.jsonl:2: no key 'text', wanted the document's text there: it has body; "
                "data.text_key (--text-key) names another key");
  check_refused("{\"prompt\": 1e999, \"completion\": NaN}", "it has prompt, completion;");
  check_refused("{}", "f.jsonl:1: no key 'text', wanted the document's text there");
  check_refused("{\"text\": \"K\xE4se\"}",
                "broken JSON: wanted one object per line, or an array of objects; its text is not UTF-8");
  check_refused("\n{\"text\": 3}", "f.jsonl:2: wanted text under 'text', got a number");
  check_refused("{\"text\": [\"a\"]}", "wanted text under 'text', got an array");
  check_refused("{\"text\": {\"text\": \"a\"}}", "wanted text under 'text', got an object");
  check_refused("\"text\"", "f.jsonl:1: wanted an object");
}

BOOST_AUTO_TEST_CASE(a_null_text_is_no_document) {
  BOOST_TEST(*read("{\"text\": null}\n{\"text\": \"b\"}\n") == std::vector<std::string>{"b"},
             boost::test_tools::per_element());
  BOOST_TEST(read("[{\"text\": null}]")->empty());
  BOOST_TEST(read("{\"text\": \"\"}")->size() == 1U);  // an empty text is also a row
}

BOOST_AUTO_TEST_CASE(the_last_of_several_equal_keys_counts_as_in_python) {
  BOOST_TEST(*read("{\"text\": \"a\", \"text\": \"b\"}") == std::vector<std::string>{"b"},
             boost::test_tools::per_element());
  BOOST_TEST(read("{\"text\": \"a\", \"text\": null}")->empty());
  check_refused("{\"text\": \"a\", \"text\": 3}", "wanted text under 'text', got a number");
}

BOOST_AUTO_TEST_CASE(an_array_is_read_element_by_element) {
  const auto got = check_ok(
      read("\xEF\xBB\xBF [\n {\"text\": \"a, ] \\\" }\", \"n\": [1, {\"text\": 2}]},\n{\"text\": \"b\"}\n]\n"));
  BOOST_TEST(*got == (std::vector<std::string>{"a, ] \" }", "b"}), boost::test_tools::per_element());
  BOOST_TEST(read("[]")->empty());
  BOOST_TEST(read(" [ ] \n")->empty());
  check_refused("[{\"text\": \"a\"}, {\"body\": 1}]", "f.jsonl: element 2: no key 'text'");
  check_refused("[{\"text\": \"a\"}, 7]", "f.jsonl: element 2: wanted an object");
  check_refused("[{\"text\": \"a\"},]", "f.jsonl: element 2:1: broken JSON");
  check_refused("[{\"text\": \"a\"}", "f.jsonl: the array has no end: the file is cut short");
  check_refused("[{\"text\": \"a\"}] {", "f.jsonl: byte 17: something follows the end of the array");
  check_refused("[" + std::string(data::max_json_line_bytes + 2, '['), "f.jsonl: element 1: it has more than");
}

BOOST_AUTO_TEST_CASE(lines_end_as_python_ends_them) {
  BOOST_TEST(*read("{\"text\": \"a\"}\r{\"text\": \"b\"}\r") == (std::vector<std::string>{"a", "b"}),
             boost::test_tools::per_element());
  check_refused("{\"text\": \"a\"}\r\n\r\n{\"text\": 1}\r\n", "f.jsonl:3: wanted text");
}

BOOST_AUTO_TEST_CASE(numbers_that_python_writes_are_passed_over) {
  const auto got = check_ok(read(
      "{\"n\": NaN, \"m\": [-Infinity, Infinity], \"f\": 1e999, \"g\": -12345678901234567890123, \"text\": \"NaN 1e999 "
      "\\\" NaN\"}"));
  BOOST_TEST(got->front() == "NaN 1e999 \" NaN");
  check_refused("{\"text\": NaN}", "f.jsonl:1: wanted text under 'text', got a number");
  check_refused("{\"n\": Nan, \"text\": \"a\"}", "broken JSON");
  check_refused("{\"n\": 01, \"text\": \"a\"}", "broken JSON");
  check_refused("{\"n\": 1., \"text\": \"a\"}", "broken JSON");
}

BOOST_AUTO_TEST_CASE(broken_json_is_named_with_line_and_column) {
  check_refused("{\"text\": \"a\"}\n{\"text\": \"b\"\n{\"text\": \"c\"}", "f.jsonl:2:13: broken JSON");
  check_refused("{\"text\": \"a\"} x", "f.jsonl:1:15: broken JSON");
  check_refused("{\"text\": \"\xFF\"}", "broken JSON");
  check_refused(std::string("{\"text\": \"a\0b\"}", 15), "broken JSON");
  check_refused("some plain text", "f.jsonl:1:1: broken JSON");
}

BOOST_AUTO_TEST_CASE(lines_of_a_file_are_those_of_the_text_wherever_blocks_of_it_end) {
  const tests::scratch_folder at;
  std::string content;
  std::vector<std::string> wanted;
  for (size_t i = 0; content.size() < 3 * data::window_block_bytes; ++i) {
    wanted.push_back(
        std::string(i == 3 ? data::window_block_bytes + 12345 : 70001 + i, static_cast<char>('a' + i % 26)));
    content += "{\"text\": \"" + wanted.back() + "\"}\n";
  }
  content.pop_back();
  const auto file = check_ok(core::source_file::open(at.write("f.jsonl", content)));
  std::vector<std::string> got;
  uint64_t last = 0;
  const auto ok = data::read_json_lines(data::text_window(*file), "f.jsonl", "text",
                                        [&](std::string_view text, uint64_t end) -> core::result<void> {
                                          got.emplace_back(text);
                                          last = end;
                                          return {};
                                        });
  BOOST_REQUIRE(ok.has_value());
  BOOST_TEST((got == wanted));
  BOOST_TEST(last == content.size());
}

BOOST_AUTO_TEST_CASE(depth_costs_no_stack) {
  const std::string deep = "{\"a\": " + std::string(200'000, '[') + std::string(200'000, ']') + ", \"text\": \"t\"}";
  BOOST_TEST(read(deep)->front() == "t");
}

BOOST_AUTO_TEST_CASE(a_line_beyond_the_limit_is_refused) {
  check_refused("{\"text\": \"" + std::string(data::max_json_line_bytes, 'a') + "\"}", "more than 67108864");
}

BOOST_AUTO_TEST_CASE(mutated_lines_are_read_or_refused) {
  std::mt19937_64 random(1);
  const std::string sound =
      "{\"text\": \"The actors\", \"n\": [1, 2.5e3, null, true]}\n{\"text\": \"\\ud83d\\ude00\"}\n";
  for (int i = 0; i < 5000; ++i) {
    auto text = sound.substr(0, random() % (sound.size() + 1));
    for (uint64_t n = random() % 4; n > 0 && !text.empty(); --n)
      text[random() % text.size()] = static_cast<char>(random());
    const auto got = read(text);
    BOOST_REQUIRE((got || got.error().text.starts_with("f.jsonl:")));
    const auto array = read("[" + text + "]");
    BOOST_REQUIRE((array || array.error().text.starts_with("f.jsonl:")));
  }
}

BOOST_AUTO_TEST_SUITE_END()
