// Tests the tokens of a question, and the tokens that end its answer.
#include "data/chat/question.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tests/check_ok.hpp"
#include "tests/data/chat_fixture.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(question)

using namespace troupe;
using namespace troupe::tests;

namespace {

data::chat_format format_of(const std::string& wanted) {
  return *check_ok(data::chat_format::open(chat_fixtures() / "model", wanted));
}

/// Returns the format of a template that the test writes.
data::chat_format format_by(const std::string& text) {
  const scratch_folder at;
  return format_of(at.write("t.jinja", text).string());
}

std::string text_of(const data::chat_format& by, const std::vector<uint32_t>& tokens) {
  return by.tokenizer().decode(tokens);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_question_is_the_rendered_conversation_before_its_answer) {
  const auto by = format_of("");
  const auto asked = *check_ok(data::ask(by, "Hi there"));
  // The first conversation of the fixture has the same question: its answer follows the same tokens.
  const auto first = read_json(chat_fixtures() / "expected.json")["samples"][0];
  const auto all = first["input_ids"].get<std::vector<uint32_t>>();
  const auto labels = first["labels"].get<std::vector<int64_t>>();
  size_t before = 0;
  while (labels[before] < 0) ++before;
  BOOST_TEST(asked.tokens == std::vector<uint32_t>(all.begin(), all.begin() + static_cast<ptrdiff_t>(before)),
             boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(asked.ends.size() == 1U);
  BOOST_TEST(text_of(by, asked.ends) == "<|im_end|>");
}

BOOST_AUTO_TEST_CASE(the_token_after_an_answer_ends_it_beside_the_end_of_a_text) {
  const auto by = format_by(
      "{% for m in messages %}{{ m.role }}:{{ m.content }}{% if m.role == 'assistant' %}<|im_start|>{% endif %}"
      "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}");
  const auto asked = *check_ok(data::ask(by, "q"));
  BOOST_TEST(text_of(by, asked.tokens) == "user:qassistant:");
  BOOST_TEST_REQUIRE(asked.ends.size() == 2U);
  BOOST_TEST(text_of(by, asked.ends) == "<|im_start|><|im_end|>");
}

BOOST_AUTO_TEST_CASE(a_template_without_a_sign_leaves_the_end_of_a_text_alone) {
  const auto plain = format_by("{% for m in messages %}{{ m.content }};{% endfor %}");
  const auto asked = *check_ok(data::ask(plain, "q"));
  BOOST_TEST_REQUIRE(asked.ends.size() == 1U);
  BOOST_TEST(text_of(plain, asked.ends) == "<|im_end|>");
  const auto joined = format_of(std::string(data::joined_template));
  const auto bare = *check_ok(data::ask(joined, "What?"));
  BOOST_TEST(text_of(joined, bare.tokens) == "What?");
}

BOOST_AUTO_TEST_CASE(a_template_that_refuses_the_question_is_named) {
  check_failed(data::ask(format_by("{{ raise_exception('no users') }}"), "q"), "no users");
  check_failed(data::ask(format_by("{{ '' }}"), "q"), "wanted at least one token, got none");
}

BOOST_AUTO_TEST_SUITE_END()
