// Compares the JSON reader with another library on random documents, and tests its extensions beyond JSON.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "config/document/document.hpp"

BOOST_AUTO_TEST_SUITE(read_json)

using namespace troupe::config;

namespace {

using nlohmann::ordered_json;

ordered_json as_json(const node& n) {
  switch (n.kind) {
    case node_kind::null:
      return nullptr;
    case node_kind::quoted:
      return n.text;
    case node_kind::plain:
      return ordered_json::accept(n.text) ? ordered_json::parse(n.text) : ordered_json("bare " + n.text);
    case node_kind::sequence: {
      ordered_json out = ordered_json::array();
      for (const node_ptr& item : n.items) out.push_back(as_json(*item));
      return out;
    }
    case node_kind::mapping:
      break;
  }
  ordered_json out = ordered_json::object();
  for (const entry& e : n.entries) out[e.name] = as_json(*e.value);
  return out;
}

std::string some_text(std::mt19937_64& random) {
  static const char* const pieces[] = {"a", "\"", "\\", "/", "\n", "\t", "é", "漢",
                                       "😀", "#",  "//", "{", "]",  ",",  ":", "'"};
  std::string out;
  for (size_t n = random() % 6; n > 0; --n) out += pieces[random() % std::size(pieces)];
  return out;
}

ordered_json some_json(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 4 ? 6 : 8)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(random());
    case 3:
      return std::ldexp(static_cast<double>(random() % 1000) - 500, static_cast<int>(random() % 40) - 20);
    case 4:
    case 5:
      return some_text(random);
    case 6: {
      ordered_json out = ordered_json::array();
      for (size_t n = random() % 5; n > 0; --n) out.push_back(some_json(random, depth + 1));
      return out;
    }
    default:
      break;
  }
  ordered_json out = ordered_json::object();
  for (size_t n = random() % 5; n > 0; --n) out[some_text(random)] = some_json(random, depth + 1);
  return out;
}

std::string read(const std::string& text) {
  const document d = troupe::config::read_json(text, 0);
  if (d.root != nullptr) return as_json(*d.root).dump();
  const problem& p = d.problems.at(0);
  return fmt::format("{}:{} {}", p.at.line, p.at.column, p.text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_documents_read_as_another_reader_reads_them) {
  std::mt19937_64 random(11);
  const char* cases = std::getenv("TROUPE_MUTATIONS");
  for (size_t i = cases == nullptr ? 1000 : std::strtoull(cases, nullptr, 10); i > 0; --i) {
    const ordered_json made = some_json(random, 0);
    const std::string text = made.dump(static_cast<int>(random() % 3) - 1, ' ', random() % 2 == 0);
    BOOST_TEST(read(text) == made.dump(), text);
  }
}

BOOST_AUTO_TEST_CASE(hjson_is_read) {
  BOOST_TEST(read("{a: 1 # one\n 'b c': two words, c\n d: [x\n y, /* z */ 3,]\n}") ==
             R"({"a":1,"b c":"bare two words, c","d":["bare x","bare y",3]})");
  BOOST_TEST(read("{\"path\": /a/b#c//d,\n \"on\": True}") == R"({"path":"bare /a/b#c//d","on":"bare True"})");
  BOOST_TEST(read("{\"a\": NAME, \"b\": -1.5e3,}") == R"({"a":"bare NAME","b":-1500.0})");
  BOOST_TEST(read("{a: x, 'b': 3}") == R"({"a":"bare x","b":3})");
  BOOST_TEST(read("{a: two words, }") == R"({"a":"bare two words"})");
  BOOST_TEST(read("[two words\n y, // z\n 1, x]") == R"(["bare two words","bare y",1,"bare x"])");
  BOOST_TEST(read("[{a: x, y}]") == R"([{"a":"bare x, y"}])");
  BOOST_TEST(read("{a: [x, ], b: 12:30, c}") == R"({"a":["bare x"],"b":"bare 12:30, c"})");
  BOOST_TEST(read("\xEF\xBB\xBF{}") == "{}");
}

BOOST_AUTO_TEST_CASE(places_count_lines_and_characters) {
  const document d = troupe::config::read_json("{\"é\": 1,\n  // é\n  \"b\": [2, \"漢\", 3]}", 7);
  const node& list = *d.root->entries.at(1).value;
  BOOST_TEST((d.root->entries[0].value->at.line == 1 && d.root->entries[0].value->at.column == 7));
  BOOST_TEST((list.at.line == 3 && list.at.column == 8 && list.at.source == 7U));
  BOOST_TEST((list.items.at(2)->at.line == 3 && list.items.at(2)->at.column == 17));
}

BOOST_AUTO_TEST_CASE(text_of_neither_form_is_refused_at_its_place) {
  BOOST_TEST(read("{\"a\" 1}") == "1:6 not readable as JSON here: '1'");
  BOOST_TEST(read("{\"a\": 1 \"b\": 2}") == "1:9 not readable as JSON here: '\"b'");
  BOOST_TEST(read("[1,,2]") == "1:4 not readable as JSON here: ','");
  BOOST_TEST(read("{\"a\": \"b\n\"}") == "1:9 not readable as JSON here: ' '");
  BOOST_TEST(read("{\"a\": \"\\x\"}") == "1:9 not readable as JSON here: 'x'");
  BOOST_TEST(read("{\"a\": \"\\ud83d\\u0041\"}").starts_with("1:20 not readable as JSON here: "));
  BOOST_TEST(read("{} {}") == "1:4 not readable as JSON here: '{'");
  BOOST_TEST(
      read("{a: runs/x, seed: 3}") ==
      "1:5 text without quotes goes on to the end of its line, so that 'seed:' would be a part of it: put the text "
      "in quotes");
  BOOST_TEST(
      read("{a: [x, y]}") ==
      "1:6 text without quotes goes on to the end of its line or list, so that 'y' would be a part of it: put each "
      "item in quotes");
  BOOST_TEST(read("{a: [1, q proj, 0.5, v]}").find("so that '0.5, v' would be") != std::string::npos);
  BOOST_TEST(read("[x,1\n]").starts_with("1:2 text without quotes"));
  BOOST_TEST(read("[x, {b: 1}]").starts_with("1:2 text without quotes"));
  BOOST_TEST(read("[[x], [y, z]]").starts_with("1:8 text without quotes"));
  BOOST_TEST(read("{\"a\": [1, {") == "1:12 not readable as JSON: the text ends too early");
  BOOST_TEST(read("{\"a\": /* ...") == "1:13 not readable as JSON: the text ends too early");
}

BOOST_AUTO_TEST_SUITE_END()
