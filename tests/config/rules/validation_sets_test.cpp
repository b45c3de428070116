// Tests the validation sets of a configuration: their paths and forms, that the effective text has them, and refusals.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(validation_sets)

using namespace troupe::config;

namespace {

/// Returns the smallest file with these keys of `data` in place of its text.
std::string with_data(const std::string& keys) { return smallest_with("{text: corpus.txt}", "{" + keys + "}"); }

bool refuses(const std::string& keys, const std::string& sentence) {
  const std::string all = errors_of(with_data(keys));
  BOOST_TEST_INFO(all);
  return all.find("error: data.validation: " + sentence) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_set_is_a_path_or_has_a_form_and_a_column_of_its_own) {
  const auto l = load_text(with_data("text: corpus.txt, validation: {books: b.txt, web: {text: /w/x.jsonl, text_key: "
                                     "body}, talks: {text: t.jsonl, form: chat}}, document_mask: true"),
                           "j.yaml", "/base");
  BOOST_TEST_REQUIRE(l.has_value());
  const auto& sets = l->config.data.validation;
  BOOST_TEST_REQUIRE(sets.size() == 3U);
  BOOST_TEST((sets[0].name == "books" && sets[0].text == "/base/b.txt" && sets[0].form == "text"));
  BOOST_TEST((sets[1].name == "web" && sets[1].text == "/w/x.jsonl" && sets[1].text_key == "body"));
  BOOST_TEST((sets[2].name == "talks" && sets[2].form == "chat"));
  const auto again = load_text(effective_yaml(*l), "effective.yaml", "/elsewhere");
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(again->config.data.validation.size() == 3U);
  for (size_t i = 0; i < 3; ++i) {
    const auto& got = again->config.data.validation[i];
    BOOST_TEST((got.name == sets[i].name && got.text == sets[i].text && got.form == sets[i].form));
    BOOST_TEST(got.text_key == sets[i].text_key);
  }
}

BOOST_AUTO_TEST_CASE(sets_with_fixed_columns_and_the_key_of_a_short_form_survive_the_effective_text) {
  const auto l = load_text(with_data("chat: talks.jsonl, text_key: turns, validation: {held: held.jsonl, marked: "
                                     "{text: m.jsonl, form: labelled}, lines: {text: l.jsonl, form: text}}"),
                           "j.yaml", "/base");
  BOOST_TEST_REQUIRE(l.has_value());
  const auto& sets = l->config.data.validation;
  BOOST_TEST_REQUIRE(sets.size() == 3U);
  BOOST_TEST((sets[0].form == "chat" && sets[0].text_key == "turns"));
  BOOST_TEST((sets[1].form == "labelled" && sets[1].text_key == data_section{}.text_key));
  BOOST_TEST((sets[2].form == "text" && sets[2].text_key == "turns"));
  const std::string yaml = effective_yaml(*l);
  const auto again = load_text(yaml, "effective.yaml", "/elsewhere");
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(effective_yaml(*again) == yaml);
}

BOOST_AUTO_TEST_CASE(the_number_of_sets_is_limited) {
  std::string sets = "s0: x";
  for (int i = 1; i <= 1024; ++i) sets += ", s" + std::to_string(i) + ": x";
  BOOST_TEST(refuses("text: a, validation: {" + sets + "}", "wanted at most 1024 sets"));
}

BOOST_AUTO_TEST_CASE(a_set_without_a_form_has_that_of_the_sources) {
  const auto l = load_text(with_data("chat: talks.jsonl, validation: {held: held.jsonl}"), "j.yaml", "/base");
  BOOST_TEST_REQUIRE(l.has_value());
  BOOST_TEST(l->config.data.validation.front().form == "chat");
  BOOST_TEST(refuses("sources: [{text: a.txt}, {text: b.jsonl, form: chat}], validation: {held: held.jsonl}",
                     "the set held needs its form ({text: PATH, form: FORM}), because the sources have several"));
}

BOOST_AUTO_TEST_CASE(sets_that_cannot_be_read_are_refused_by_name) {
  BOOST_TEST(refuses("text: a, validation: [b.txt]", "wanted a mapping"));
  BOOST_TEST(refuses("text: a, validation: {Samples: b.txt}",
                     "wanted sets with names of at most 64 letters, digits, '_', '-' and '.', none of them Samples"));
  BOOST_TEST(refuses("text: a, validation: {a/b: b.txt}", "wanted sets with names"));
  BOOST_TEST(refuses("text: a, validation: {b: {form: text}}",
                     "wanted a path for the set b, or {text: PATH, form: FORM, text_key: KEY}"));
  BOOST_TEST(refuses("text: a, validation: {b: {text: x, weight: 2}}", "wanted a path for the set b"));
  BOOST_TEST(refuses("text: a, validation: {b: {text: x, form: prose}}",
                     "wanted one of the forms text, chat, instruct, labelled for the set b"));
  BOOST_TEST(refuses("text: a, validation: {b: {text: x, form: labelled, text_key: y}}, document_mask: true",
                     "the set b: the columns of the form labelled have fixed names; remove text_key"));
  BOOST_TEST(refuses("text: a, validation: {b: {text: x, form: labelled}}",
                     "the set b has the form labelled, whose samples share rows: set data.document_mask, or "
                     "data.packing: none"));
}

BOOST_AUTO_TEST_CASE(a_set_is_evaluated_between_steps_without_a_held_out_part) {
  BOOST_TEST(errors_of(with_data("text: a, validation: {b: b.txt}") + "evaluation: {every_steps: 4}\n") == "");
}

BOOST_AUTO_TEST_SUITE_END()
