// Tests which rows are conversations: their forms, which messages are answers, and the sentences that refuse a row.
#include "data/chat/conversation.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(conversation)

using namespace troupe;
using namespace troupe::tests;

namespace {

using core::sample_form;

core::result<data::conversation> read_row(const std::string& row, sample_form form = sample_form::chat,
                                          const std::string& key = "") {
  return data::conversation_of(nlohmann::ordered_json::parse(row), form, key);
}

core::result<data::labelled_tokens> labelled(const std::string& row) {
  return data::labelled_tokens_of(nlohmann::ordered_json::parse(row), 10);
}

const std::string question = R"({"role": "user", "content": "q"})", answer = R"({"role": "assistant", "content": "a"})";

}  // namespace

BOOST_AUTO_TEST_CASE(messages_of_the_assistant_are_answers) {
  const auto talk =
      *check_ok(read_row(R"({"messages": [)" + question + "," + answer + "," + question + "," + answer + "]}"));
  BOOST_TEST((talk.answers == std::vector<size_t>{1, 3}));
  BOOST_TEST(talk.messages.dump() == std::string("[") +
                                         R"({"role":"user","content":"q"},{"role":"assistant","content":"a"},)" +
                                         R"({"role":"user","content":"q"},{"role":"assistant","content":"a"}])");
}

BOOST_AUTO_TEST_CASE(sharegpts_speakers_are_roles) {
  const auto talk = *check_ok(read_row(
      R"({"system": "s", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})"));
  BOOST_TEST(talk.messages.dump() ==
             R"([{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}])");
  BOOST_TEST((talk.answers == std::vector<size_t>{2}));
  check_failed(read_row(R"({"conversations": [{"from": "alien", "value": "q"}]})"),
               "message 1: the speaker 'alien' is not known");
}

BOOST_AUTO_TEST_CASE(sharegpts_messages_keep_their_other_members) {
  const auto talk = *check_ok(
      read_row(R"({"conversations": [{"from": "gpt", "value": "a", "tool_calls": [{"name": "f"}], "weight": 1}]})"));
  BOOST_TEST(talk.messages.dump() == R"([{"role":"assistant","content":"a","tool_calls":[{"name":"f"}]}])");
}

BOOST_AUTO_TEST_CASE(an_answer_of_weight_0_does_not_count) {
  const std::string silent = R"({"role": "assistant", "content": "a", "weight": 0})";
  const auto talk = *check_ok(read_row(R"({"messages": [)" + silent + "," + answer + "]}"));
  BOOST_TEST((talk.answers == std::vector<size_t>{1}));
  BOOST_TEST(!talk.messages[0].contains("weight"));
  check_error(read_row(R"({"messages": [)" + silent + "]}"),
              "no message of the assistant has the weight 1: wanted an answer to learn from");
  check_failed(read_row(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})"),
               "message 1: wanted 0 or 1 as 'weight', got 0.5");
}

BOOST_AUTO_TEST_CASE(a_message_that_is_no_answer_has_no_weight_but_0) {
  const auto user = [](const char* weight) {
    return R"({"role": "user", "content": "q", "weight": )" + std::string(weight) + "}";
  };
  const auto silent = *check_ok(read_row(R"({"messages": [)" + user("0") + "," + answer + "]}"));
  BOOST_TEST((silent.leaves_out && silent.answers == std::vector<size_t>{1}));
  BOOST_TEST(!check_ok(read_row(R"({"messages": [)" + user("null") + "," + answer + "]}"))->leaves_out);
  check_failed(read_row(R"({"messages": [)" + user("1") + "," + answer + "]}"),
               "message 1: wanted no 'weight' in a message of the user");
}

BOOST_AUTO_TEST_CASE(what_is_no_text_is_refused_beside_a_conversation) {
  const std::string talk = R"({"messages": [)" + question + "," + answer + "]";
  for (const std::string none : {"null", "[]"}) check_ok(read_row(talk + R"(, "images": )" + none + "}"));
  check_failed(read_row(talk + R"(, "images": ["a.png"]})"), "'images' holds what is no text");
  check_failed(read_row(R"({"prompt": "p", "completion": "c", "audio": {"path": "a.wav"}})", sample_form::instruct),
               "'audio' holds what is no text");
  // Tables are read by these columns alone, so what is refused must be among them.
  for (const auto form : {sample_form::chat, sample_form::instruct})
    for (const char* column : {"functions", "system_prompt", "images", "video"})
      BOOST_TEST(std::ranges::count(data::columns_of(form, ""), column) == 1, column);
}

BOOST_AUTO_TEST_CASE(tools_are_variables_of_the_template) {
  const std::string messages = R"("messages": [)" + question + "," + answer + "]";
  for (const std::string tools : {R"([{"name": "f"}])", R"("[{\"name\": \"f\"}]")"})
    BOOST_TEST(check_ok(read_row("{" + messages + R"(, "tools": )" + tools + "}"))->variables["tools"].dump() ==
               R"([{"name":"f"}])");
  for (const std::string none : {"null", "[]", R"("")"})
    BOOST_TEST(!check_ok(read_row("{" + messages + R"(, "tools": )" + none + "}"))->has_tools());
  check_failed(read_row("{" + messages + R"(, "tools": "[1"})"), "'tools': broken JSON");
  check_failed(read_row("{" + messages + R"(, "functions": [{}]})"), "'functions' is OpenAI's older form");
  const std::string call = R"({"role": "assistant", "content": "", "function_call": {"name": "f"}})";
  check_failed(read_row(R"({"messages": [)" + call + "," + answer + "]}"),
               "message 1: 'function_call' is OpenAI's older form");
  check_ok(read_row(R"({"messages": [{"role": "assistant", "content": "a", "function_call": null}]})"));
  check_failed(read_row(R"({"messages": [{"role": "assistant", "content": "a", "train": false}]})"),
               "message 1: 'train' is not read: write \"weight\": 0");
  check_failed(read_row("{" + messages + R"(, "conversations": [{"from": "human", "value": "q"}]})"),
               "the row has 'messages' and 'conversations': say by data.text_key");
}

BOOST_AUTO_TEST_CASE(members_that_are_null_are_left_out_and_reasoning_has_all_its_names) {
  const auto talk = *check_ok(
      read_row(R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": null, "reasoning": "why"}]})"));
  BOOST_TEST(talk.messages[0].dump() ==
             R"({"thinking":"why","role":"assistant","content":"a","reasoning":"why","reasoning_content":"why"})");
}

BOOST_AUTO_TEST_CASE(prompts_and_instructions_become_two_messages) {
  const auto pair = *check_ok(read_row(R"({"prompt": "p", "completion": "c"})", sample_form::instruct));
  BOOST_TEST(pair.is_pair());
  BOOST_TEST(pair.messages.dump() == R"([{"role":"user","content":"p"},{"role":"assistant","content":"c"}])");
  const auto task = *check_ok(read_row(R"({"instruction": "i", "input": "x", "output": "o"})", sample_form::instruct));
  BOOST_TEST(!task.is_pair());
  BOOST_TEST(task.messages[0]["content"].get<std::string>() == "i\n\nx");
  const std::string history = question + "," + answer + "," + question;
  const auto lists =
      *check_ok(read_row(R"({"prompt": [)" + history + R"(], "completion": [)" + answer + "]}", sample_form::instruct));
  BOOST_TEST((lists.answers == std::vector<size_t>{3}));
  check_failed(read_row(R"({"prompt": "p", "completion": ""})", sample_form::instruct), "the completion is empty");
  check_failed(read_row(R"({"question": "p"})", sample_form::instruct), "got question");
  const std::string both = R"({"prompt": null, "completion": null, "instruction": "i", "output": "o"})";
  BOOST_TEST(!check_ok(read_row(both, sample_form::instruct))->is_pair());
  check_failed(read_row(R"({"prompt": "p", "completion": null})", sample_form::instruct),
               "wanted text under 'completion', got prompt, completion");
}

BOOST_AUTO_TEST_CASE(a_prompt_may_have_a_system_message_beside_it_and_no_earlier_turns) {
  const std::string task = R"("instruction": "i", "output": "o")";
  const auto talk = *check_ok(read_row("{" + task + R"(, "system": "s", "history": []})", sample_form::instruct));
  BOOST_TEST(talk.messages.dump() ==
             R"([{"role":"system","content":"s"},{"role":"user","content":"i"},{"role":"assistant","content":"o"}])");
  BOOST_TEST((talk.answers == std::vector<size_t>{2}));
  for (const std::string none : {"null", R"("")"})
    BOOST_TEST(
        check_ok(read_row("{" + task + R"(, "system": )" + none + "}", sample_form::instruct))->messages.size() == 2U);
  check_failed(read_row("{" + task + R"(, "history": [["q", "a"]]})", sample_form::instruct),
               "'history' has turns before the prompt");
  check_failed(read_row("{" + task + R"(, "context": "c"})", sample_form::instruct), "'context' is a text");
  for (const std::string none : {"null", R"("")"})
    check_ok(read_row("{" + task + R"(, "context": )" + none + "}", sample_form::instruct));
  const auto named = *check_ok(read_row("{" + task + R"(, "system_prompt": "s"})", sample_form::instruct));
  BOOST_TEST(named.messages.dump() == talk.messages.dump());
  check_failed(read_row("{" + task + R"(, "system": "s", "system_prompt": "t"})", sample_form::instruct),
               "'system' and 'system_prompt' have different texts");
  check_error(read_row(R"({"system": 5, "messages": [)" + answer + "]}"), "wanted text under 'system', got number");
}

BOOST_AUTO_TEST_CASE(a_row_without_a_conversation_is_refused) {
  check_error(read_row("{\"messages\": [" + question + "]}"),
              "the conversation has no message of the assistant: wanted an answer to learn from");
  check_error(read_row(R"({"text": "a", "id": 1})"),
              "wanted a conversation under 'messages' or 'conversations', got text, id");
  check_error(read_row(R"({"messages": []})", sample_form::chat, "talk"),
              "wanted a conversation under 'talk', got messages");
  check_failed(read_row("7"), "wanted an object, got number");
  check_failed(read_row(R"({"messages": "hi"})"), "wanted a list of messages, got string");
  check_failed(read_row(R"({"messages": ["hi"]})"), "message 1: wanted an object with a role, got string");
  check_failed(read_row(R"({"messages": [{"content": "hi"}]})"),
               "message 1: wanted a role (or ShareGPT's from), got content");
  check_failed(read_row(R"({"messages": [{"role": "user"}]})"), "message 1: wanted text under 'content', got none");
  check_failed(read_row(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"),
               "message 1: wanted parts with \"type\": \"text\" under 'content', got image_url");
}

BOOST_AUTO_TEST_CASE(labels_say_which_tokens_count) {
  const auto tokens =
      *check_ok(labelled(R"({"input_ids": [1, 2, 3], "labels": [-100, 2, 3], "attention_mask": [1, 1, 1]})"));
  BOOST_TEST((tokens.tokens == std::vector<uint32_t>{1, 2, 3}));
  BOOST_TEST((tokens.counts == std::vector<bool>{false, true, true}));
  BOOST_TEST((check_ok(labelled(R"({"input_ids": [4]})"))->counts == std::vector<bool>{true}));
  check_failed(labelled(R"({"input_ids": [1, 2], "labels": [1]})"),
               "wanted as many 'labels' as 'input_ids', got 1 and 2");
  check_failed(labelled(R"({"input_ids": [1, 2], "labels": [1, 3]})"), "wanted the token 2 or -100 at place 1, got 3");
  check_failed(labelled(R"({"input_ids": [1, 12]})"), "token 12 at place 1 lies outside the vocabulary of 10");
  check_failed(labelled(R"({"input_ids": [1], "attention_mask": [0]})"), "store samples without padding");
  check_error(labelled(R"({"input_ids": [1, 2], "completion_mask": [0, 1]})"),
              "wanted 'labels', which are -100 where 'completion_mask' is 0, got 'completion_mask' without them: masks "
              "are not read");
  check_ok(labelled(R"({"input_ids": [1, 2], "labels": [-100, 2], "completion_mask": [0, 1]})"));
  check_failed(labelled(R"({"input_ids": [1, 18446744073709551615]})"),
               "wanted integers below 2^63 under 'input_ids', got 18446744073709551615 at place 1");
  check_failed(labelled(R"({"input_ids": "1 2"})"), "wanted a list of integers under 'input_ids', got string");
}

BOOST_AUTO_TEST_SUITE_END()
