// Tests reading multiple-choice questions, and counting right answers.
#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

#include "apps/evaluate/choice_file.hpp"
#include "apps/evaluate/choice_scores.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(choices)

using namespace troupe;
using namespace troupe::apps;
using troupe::tests::check_failed;

BOOST_AUTO_TEST_CASE(a_question_is_a_context_with_choices_and_the_index_of_the_right_one) {
  const auto q = question_of(R"({"context": "Two and two is ", "choices": ["four", "f\u00fcnf"], "answer": 0})");
  BOOST_TEST_REQUIRE(q.has_value());
  BOOST_TEST(q->choices.size() == 2U);
  BOOST_TEST(q->choices[1] == "f\xc3\xbcnf");
  BOOST_TEST(q->answer == 0U);
  // White space at the end of the context belongs to the continuation, as in lm_eval.
  const auto text = text_of(*q, 0);
  BOOST_TEST(text.context == "Two and two is");
  BOOST_TEST(text.continuation == "  four");
}

BOOST_AUTO_TEST_CASE(wrong_questions_are_refused_with_the_key_and_the_line) {
  const auto refused = [](const std::string& line, const std::string& part) {
    check_failed(question_of(line), error_kind::bad_input, part);
  };
  refused("[1]", "wanted a mapping with context, choices and answer");
  refused("{\"context\": ", "broken JSON");
  refused(R"({"context": "a", "choices": ["b", "c"]})", "answer: wanted a value, got nothing");
  refused(R"({"context": "a", "choices": ["b", "c"], "answer": 0, "gold": 1})", "unknown key 'gold'");
  refused(R"({"context": "a", "context": "b", "choices": ["b", "c"], "answer": 0})", "'context' is given twice");
  refused(R"({"context": " \n", "choices": ["b", "c"], "answer": 0})", "context: wanted a text before the choices");
  refused(R"({"context": "a", "choices": ["b"], "answer": 0})", "choices: wanted a list of at least two texts");
  refused(R"({"context": "a", "choices": ["b", ""], "answer": 0})", "choices: wanted texts that are not empty");
  for (const char* answer : {"2", "-1", "0.5", "\"b\""})
    refused(std::string(R"({"context": "a", "choices": ["b", "c"], "answer": )") + answer + "}",
            "answer: wanted the index of a choice, 0 to 1, got ");
  tests::scratch_folder folder;
  folder.write("q.jsonl", "\n{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 1}\n{}\n");
  check_failed(read_questions(folder / "q.jsonl"), error_kind::bad_input, "line 3: context: wanted a value");
  folder.write("none.jsonl", "\n\n");
  check_failed(read_questions(folder / "none.jsonl"), error_kind::bad_input, "has no question");
  check_failed(read_questions(folder / "missing.jsonl"), error_kind::bad_input, "cannot read");
}

BOOST_AUTO_TEST_CASE(answers_are_counted_by_sums_and_by_sums_for_each_byte) {
  const std::vector<choice_question> questions{{1, "a", {"yes", "certainly"}, 1}, {2, "a", {"b", "c"}, 0}};
  // The longer choice is less probable, but more probable for each byte.
  const std::vector<std::vector<double>> scores{{-3, -4}, {-1, -2}};
  const auto counts = count_right(questions, scores);
  BOOST_TEST(counts.questions == 2U);
  BOOST_TEST(counts.accuracy() == 0.5);
  BOOST_TEST(counts.accuracy_by_bytes() == 1.0);
  BOOST_TEST(standard_error(0.5, 2) == 0.5);
  BOOST_TEST(standard_error(1, 1) == 0.0);
  BOOST_TEST(most_probable(std::vector<double>{-2, -1, -1}) == 1U);
  BOOST_TEST(most_probable(std::vector<double>{std::numeric_limits<double>::quiet_NaN(), -5}) == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
