// Compares chat templates with transformers: whole templates for drawn conversations, and small ones for each rule of
// the language; also tests what is refused, where, and the limits.
#include "data/templates/chat_template.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/check_ok.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(chat_template)

using namespace troupe;
using namespace troupe::tests;

namespace {

std::string fixture_text(const std::string& name) {
  std::ifstream in(std::filesystem::path(troupe::places::source_dir) / "tests" / "data" / "fixtures" / name,
                   std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

nlohmann::ordered_json fixture_json(const std::string& name) {
  return nlohmann::ordered_json::parse(fixture_text(name));
}

/// Returns the 64-bit FNV-1a hash of a text as 16 digits.
std::string fingerprint(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  std::string out(16, '0');
  for (size_t i = 0; i < 16; ++i) out[15 - i] = "0123456789abcdef"[hash >> (4 * i) & 15];
  return out;
}

core::result<data::rendered_chat> rendered(std::string_view source, const nlohmann::ordered_json& variables) {
  TROUPE_ASSIGN(const auto made, data::chat_template::parse("t", source));
  return made.render(variables);
}

/// Returns the text of a template without variables, or of the error.
std::string text_of(std::string_view source,
                    const nlohmann::ordered_json& variables = nlohmann::ordered_json::object()) {
  const auto out = rendered(source, variables);
  return out ? out->text : out.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(conversations_are_rendered_as_by_the_real_package) {
  const auto all = fixture_json("chat_templates.json");
  size_t compared = 0;
  for (const auto& [name, rows] : all["rendered"].items()) {
    const auto made = *check_ok(data::chat_template::parse(name, fixture_text("chat_templates/" + name + ".jinja")));
    for (size_t i = 0; i < rows.size(); ++i) {
      auto variables = all["variables"][i];
      variables["strftime_now"] = all["clock"];
      const auto got = made.render(variables);
      ++compared;
      BOOST_TEST_INFO_SCOPE(name << ", conversation " << i << ": " << (got ? got->text : got.error().text));
      BOOST_TEST(got.has_value() == !rows[i].is_null());
      if (!got || rows[i].is_null()) continue;
      // The first two are stored as they are, so that a difference can be read.
      BOOST_TEST((i < 2 ? got->text : fingerprint(got->text)) == rows[i][0].get<std::string>());
      std::vector<data::text_span> spans;
      for (size_t at = 1; at + 1 < rows[i].size(); at += 2)
        spans.push_back({rows[i][at].get<size_t>(), rows[i][at + 1].get<size_t>()});
      BOOST_TEST((got->generated == spans));
    }
  }
  BOOST_TEST(compared > 2000U);
}

BOOST_AUTO_TEST_CASE(every_rule_of_the_language_is_that_of_the_real_package) {
  const auto all = fixture_json("chat_language.json");
  auto variables = all["variables"];
  variables["strftime_now"] = all["clock"];
  for (const auto& row : all["rows"]) {
    const auto source = row["source"].get<std::string>();
    const auto got = rendered(source, variables);
    BOOST_TEST_INFO_SCOPE(source << " -> " << (got ? got->text : got.error().text));
    BOOST_TEST(got.has_value() == row.contains("text"));
    if (got && row.contains("text")) BOOST_TEST(got->text == row["text"].get<std::string>());
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_supported_is_named_with_its_place_before_anything_is_rendered) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"a\nb {{ x | urlize }}", "template 't', line 2, column 10: the filter 'urlize' is not supported"},
      {"{{ x is filter }}", "template 't', line 1, column 9: the test 'filter' is not supported"},
      {"{% include 'x' %}", "template 't', line 1, column 4: the statement 'include' is not supported"},
      {"{% if a %}\n{% nothing %}{% endif %}", "line 2, column 4: 'nothing' is not a statement that belongs here"},
      {"{% for x in y recursive %}{% endfor %}", "column 15: a recursive loop is not supported"},
      {"{{ lipsum() }}", "column 4: the name 'lipsum' is not supported"},
      {"{{ x.encode() }}", "the method 'encode' is not supported"},
      {"{{ x.__class__ }}", "the attribute '__class__' is not supported"},
      {"{% for x in y %}{% macro f() %}{% endmacro %}{% endfor %}", "a macro inside of a loop"},
      {"{% set a %}{% generation %}{% endgeneration %}{% endset %}", "'generation' inside of a macro"},
      {"{{ 'a'", "line 1, column 1: this '{{' has no end '}}'"},
      {"\n  {# a", "line 2, column 3: this comment has no end '#}'"},
      {"{% if x %}a", "wanted '{% endif %}', got the end of the template"},
      {"{{ 99999999999999999999 }}", "the number 99999999999999999999 is beyond 64 bits"},
      {"{{ a ) }}", "line 1, column 6: ')' closes nothing"},
  };
  for (const auto& [source, words] : rows)
    BOOST_TEST_CONTEXT(source)
    check_failed(data::chat_template::parse("t", source), core::error_kind::bad_input, std::string(words));
  check_failed(data::chat_template::parse("t", "\xFF"), "is not UTF-8");
}

BOOST_AUTO_TEST_CASE(an_error_while_rendering_names_its_place) {
  BOOST_TEST(text_of("a\n{{ raise_exception('no ' ~ 'answer') }}") ==
             "template 't', line 2, column 19: the template refuses this: no answer");
  BOOST_TEST(has(text_of("{% if true %}\n  {{ x.y }}{% endif %}"), "line 2, column 7: 'x' is undefined"));
  BOOST_TEST(has(text_of("{{ 1 + 'a' }}"), "'+' is not defined for values of types int and str"));
  BOOST_TEST(has(text_of("{{ strftime_now('%Q') }}"), "the mark '%Q' is not supported"));
  BOOST_TEST(has(text_of("{{ strftime_now('%d') }}", {{"strftime_now", "2026-13-01"}}), "wanted a time such as"));
  BOOST_TEST(has(text_of("{{ n }}", {{"n", 1e30}}), "is beyond 64 bits"));
}

BOOST_AUTO_TEST_CASE(a_template_without_an_end_is_stopped_by_a_named_limit) {
  const auto stopped = [](std::string_view source, const std::string& words) {
    BOOST_TEST_CONTEXT(source)
    check_failed(rendered(source, nlohmann::ordered_json::object()), core::error_kind::limit, words);
  };
  stopped("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "parts call each other");
  stopped("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps");
  stopped("{% set n = namespace(t='ab') %}{% for i in range(99) %}{% set n.t = n.t + n.t %}{% endfor %}",
          "a text of more");
  stopped("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "a text of more than");
  stopped("{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = [n.l] %}{% endfor %}",
          "nested more than");
  stopped("{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor %}",
          "a list of more");
  check_failed(data::chat_template::parse("t", "{{ " + std::string(1000, '(') + std::string(1000, ')') + " }}"),
               core::error_kind::bad_input, "nested more than");
  check_failed(rendered("{{ range(100001) }}", nlohmann::ordered_json::object()), core::error_kind::limit, "a range");
}

BOOST_AUTO_TEST_CASE(objects_that_contain_each_other_are_freed) {
  BOOST_TEST(text_of("{% set a = namespace() %}{% set a.me = a %}{% for x in [a] %}{% set a.l = loop %}"
                     "{{ loop.index }}{% endfor %}{{ a.me.me.l is defined }}") == "1True");
}

BOOST_AUTO_TEST_CASE(generated_texts_are_spans_of_bytes) {
  const auto made = *check_ok(data::chat_template::parse(
      "t", "é{% for x in ['ü', 'b'] %}<{% generation %}{{ x }}!{% endgeneration %}>{% endfor %}"));
  BOOST_TEST(made.marks_generation());
  const auto got = *check_ok(made.render(nlohmann::ordered_json::object()));
  BOOST_TEST(got.text == "é<ü!><b!>");
  BOOST_TEST((got.generated == std::vector<data::text_span>{{3, 6}, {8, 10}}));
  BOOST_TEST(!check_ok(data::chat_template::parse("t", "{{ generation }}"))->marks_generation());
}

BOOST_AUTO_TEST_CASE(the_clock_is_the_local_one_without_a_variable) {
  const auto year = text_of("{{ strftime_now('%Y') }}");
  BOOST_TEST(year.size() == 4U);
  BOOST_TEST(text_of("{{ strftime_now('%F %T %a %-j') }}", {{"strftime_now", "2024-12-31 23:59:58"}}) ==
             "2024-12-31 23:59:58 Tue 366");
}

BOOST_AUTO_TEST_SUITE_END()
