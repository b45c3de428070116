// Compares the text and the tokens of conversations, and which of them count, with transformers'
// (tests/peer/make_conversation_fixtures.py); checks templates whose answers cannot be told apart.
#include "data/chat/chat_sample.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/chat_format.hpp"
#include "data/chat/conversation.hpp"
#include "data/chat/rendering.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "tests/check_ok.hpp"
#include "tests/data/chat_fixture.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(chat_sample)

using namespace troupe;
using namespace troupe::tests;

namespace {

using core::loss_part;

data::chat_format format_of(const std::filesystem::path& place, const std::string& wanted = "") {
  return *check_ok(data::chat_format::open(place, wanted));
}

data::conversation talk_of(const nlohmann::ordered_json& row) {
  return *check_ok(data::conversation_of(row, core::sample_form::chat, ""));
}

core::result<data::rendered_conversation> rendered_by(const std::string& jinja, const std::string& messages,
                                                      loss_part part = loss_part::assistant) {
  const scratch_folder at;
  const auto format = format_of({}, at.write("t.jinja", jinja).string());
  return data::render(format, talk_of(nlohmann::ordered_json::parse(R"({"messages": )" + messages + "}")), part);
}

/// Returns the text of `by` with the counted parts in brackets.
std::string marked(const data::rendered_conversation& by) {
  std::string out;
  size_t at = 0;
  for (const auto& one : by.counted) {
    out += by.text.substr(at, one.begin - at) + "[" + by.text.substr(one.begin, one.end - one.begin) + "]";
    at = one.end;
  }
  return out + by.text.substr(at);
}

const std::string two_answers = R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                                    {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}])";

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_and_labels_are_those_of_transformers) {
  const auto format = format_of(chat_fixtures() / "model");
  const auto expected = read_json(chat_fixtures() / "expected.json")["samples"];
  const auto rows = chat_rows("messages.jsonl");
  BOOST_TEST_REQUIRE(rows.size() == expected.size());
  for (size_t i = 0; i < rows.size(); ++i) BOOST_TEST_CONTEXT("conversation " << i) {
      const auto talk = talk_of(rows[i]);
      for (const auto& [part, labels] : {std::pair(loss_part::assistant, "labels"), {loss_part::last, "last"}}) {
        const auto text = *check_ok(data::render(format, talk, part));
        BOOST_TEST(text.text == expected[i]["text"].get<std::string>());
        const auto sample = *check_ok(data::sample_of(format, text));
        BOOST_TEST(labels_of(sample) == expected[i][labels].get<std::vector<int64_t>>(),
                   boost::test_tools::per_element());
      }
    }
}

// The template with marks leaves out the system's text of the other one, so its tokens are compared by the labels
// alone: these are the tokens of the answers.
BOOST_AUTO_TEST_CASE(a_template_may_mark_its_answers) {
  const auto marks = format_of(chat_fixtures() / "model", (chat_fixtures() / "marked.jinja").string());
  const auto expected = read_json(chat_fixtures() / "expected.json")["samples"];
  const auto rows = chat_rows("messages.jsonl");
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto text = *check_ok(data::render(marks, talk_of(rows[i]), loss_part::assistant));
    const auto sample = *check_ok(data::sample_of(marks, text));
    BOOST_TEST(labels_of(sample) == expected[i]["marked"].get<std::vector<int64_t>>(),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(sharegpt_and_parquet_have_the_same_conversations) {
  const auto wanted = chat_rows("messages.jsonl"), got = chat_rows("sharegpt.jsonl"),
             table = chat_rows("messages.parquet");
  BOOST_TEST_REQUIRE(got.size() == wanted.size());
  BOOST_TEST_REQUIRE(table.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    BOOST_TEST(talk_of(got[i]).messages.dump() == talk_of(wanted[i]).messages.dump());
    BOOST_TEST(table[i]["messages"].dump() == wanted[i]["messages"].dump());
  }
}

// Columns of other kinds, nulls and empty lists are beside the messages; Polars stores texts as views.
BOOST_AUTO_TEST_CASE(arrow_has_the_same_conversations) {
  const auto wanted = chat_rows("messages.jsonl");
  for (const char* name : {"messages.arrow", "messages_zstd.feather", "messages_polars.arrow"}) {
    const auto got = chat_rows(name);
    BOOST_TEST_REQUIRE(got.size() == wanted.size(), name);
    for (size_t i = 0; i < wanted.size(); ++i)
      BOOST_TEST(got[i]["messages"].dump() == wanted[i]["messages"].dump(), name);
  }
}

BOOST_AUTO_TEST_CASE(answers_are_the_difference_of_two_renderings) {
  const std::string plain =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  BOOST_TEST(marked(*check_ok(rendered_by(plain, two_answers))) == "<user>q;<assistant>[a;]<user>r;<assistant>[b;]");
  BOOST_TEST(marked(*check_ok(rendered_by(plain, two_answers, loss_part::last))) ==
             "<user>q;<assistant>a;<user>r;<assistant>[b;]");
  BOOST_TEST(marked(*check_ok(rendered_by(plain, two_answers, loss_part::all))) ==
             "[<user>q;<assistant>a;<user>r;<assistant>b;]");
}

BOOST_AUTO_TEST_CASE(the_last_answer_of_several_marks_is_not_guessed) {
  const std::string twice =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}<think>{% endgeneration %}-"
      "{% generation %}{{ m.content }};{% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}";
  BOOST_TEST(marked(*check_ok(rendered_by(twice, two_answers))) == "q;[<think>]-[a;]r;[<think>]-[b;]");
  check_error(rendered_by(twice, two_answers, loss_part::last),
              "the template marks 4 texts of 2 messages of the assistant, so it is unknown which of them are the last "
              "answer (data.loss_on)");
}

BOOST_AUTO_TEST_CASE(an_answer_of_weight_0_cannot_count_with_all_tokens) {
  const std::string plain = "{% for m in messages %}{{ m.content }};{% endfor %}";
  const auto talk = [](const std::string& weight) {
    return R"([{"role": "assistant", "content": "a", "weight": )" + weight +
           R"(}, {"role": "assistant", "content": "b"}])";
  };
  check_error(rendered_by(plain, talk("0"), loss_part::all),
              "a message has the weight 0, and data.loss_on: all counts every token: set "
              "data.loss_on: assistant, or leave out the weights");
  BOOST_TEST(marked(*check_ok(rendered_by(plain, talk("0")))) == "a;[b;]");
  BOOST_TEST(marked(*check_ok(rendered_by(plain, talk("1"), loss_part::all))) == "[a;b;]");
}

BOOST_AUTO_TEST_CASE(a_template_that_rewrites_earlier_messages_is_refused) {
  // The first answer is shortened as soon as another message follows, as templates do that leave out old thoughts.
  const std::string forgets =
      "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last or m.role == 'user' else '' }};{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  check_failed(rendered_by(forgets, two_answers),
               "the template writes the messages before message 2 and itself "
               "differently when further messages follow");
  check_ok(rendered_by(forgets, two_answers, loss_part::all));
  check_failed(rendered_by("nothing", two_answers), "the template writes no text for the answers");
}

BOOST_AUTO_TEST_CASE(a_prompt_and_its_completion_may_follow_each_other_without_a_template) {
  const auto format = format_of({}, std::string(data::joined_template));
  const auto row = nlohmann::ordered_json::parse(R"({"prompt": "2 + 2 =", "completion": " 4"})");
  const auto pair = *check_ok(data::conversation_of(row, core::sample_form::instruct, ""));
  const auto text = *check_ok(data::render(format, pair, loss_part::assistant));
  BOOST_TEST(marked(text) == "2 + 2 =[ 4]");
  BOOST_TEST((check_ok(data::sample_of(format, text))->counted == std::vector<data::token_span>{{7, 9}}));
  check_failed(data::render(format, talk_of(nlohmann::ordered_json::parse(R"({"messages": )" + two_answers + "}")),
                            loss_part::assistant),
               "data.chat_template: wanted a template for messages");
  const auto more = nlohmann::ordered_json::parse(R"({"prompt": "p", "completion": "c", "system": "s"})");
  const auto with_system = *check_ok(data::conversation_of(more, core::sample_form::instruct, ""));
  check_failed(data::render(format, with_system, loss_part::assistant), "'system' has no place");
}

BOOST_AUTO_TEST_CASE(a_folder_without_a_template_and_unknown_names_are_refused) {
  check_failed(data::chat_format::open({}, ""), "because the tokenizer `bytes` has none");
  check_failed(data::chat_format::open(chat_fixtures() / "model", "rag"),
               "wanted the name of one of its chat templates as data.chat_template (default)");
}

// A token that extends over the border of an answer belongs to the side of its first byte.
BOOST_AUTO_TEST_CASE(a_token_across_a_border_belongs_to_the_side_on_which_it_begins) {
  auto tokenizer = *check_ok(data::open_tokenizer(chat_fixtures() / "model", data::special_words::tokens));
  const std::string text = "Name a fruit. Pear<|im_end|>";
  std::vector<uint32_t> all;
  check_ok(tokenizer->encode(text, all));
  size_t bytes = 0;
  for (size_t token = 0; token < all.size(); ++token) {
    BOOST_TEST(*check_ok(data::tokens_before(*tokenizer, text, all, bytes)) == token);
    const size_t length = tokenizer->decode(std::span(&all[token], 1)).size();
    for (size_t within = 1; within < length; ++within)
      BOOST_TEST(*check_ok(data::tokens_before(*tokenizer, text, all, bytes + within)) == token + 1);
    bytes += length;
  }
  BOOST_TEST(bytes == text.size());
}

BOOST_AUTO_TEST_CASE(a_cut_sample_keeps_the_answers_before_the_cut) {
  data::chat_sample x{.tokens = {1, 2, 3, 4, 5, 6}, .counted = {{1, 2}, {3, 6}}};
  data::cut_sample(x, 4);
  BOOST_TEST(x.tokens.size() == 4U);
  BOOST_TEST((x.counted == std::vector<data::token_span>{{1, 2}, {3, 4}}));
  BOOST_TEST(data::counted_tokens(x) == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
